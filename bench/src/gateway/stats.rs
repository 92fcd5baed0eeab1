//! Medians, percentiles and the spread between rounds.

use std::time::Duration;

/// The latencies of one round, sorted.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(crate) fn new(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        Self(all)
    }

    /// The latency that `share` of the calls stay below, in microseconds.
    pub(crate) fn percentile_us(&self, share: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        let at = ((last as f64) * share).round() as usize;
        self.0
            .get(at)
            .map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e6)
    }
}

/// The median of some figures.
pub(crate) fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// The smallest and the largest.
pub(crate) fn spread(figures: &[f64]) -> (f64, f64) {
    let low = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let high = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_percentiles() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        let all = (1..=101).map(Duration::from_micros).collect();
        let latencies = Latencies::new(all);
        assert!((latencies.percentile_us(0.5) - 51.0).abs() < 1e-6);
        assert!((latencies.percentile_us(0.99) - 100.0).abs() < 1e-6);
    }
}
