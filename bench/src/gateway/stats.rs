//! Medians, percentiles, and ratios with their spread over rounds.

use std::{fmt, time::Duration};

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

/// A figure of some rounds: what it is, and between what it was in single rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Figure {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Figure {
    /// The median over rounds.
    pub(crate) fn median_of(rounds: &[f64]) -> Self {
        Self::with_spread(median(rounds), rounds.iter().copied())
    }

    /// A ratio of medians; the spread is that of the ratios within each round.
    pub(crate) fn ratio(of: &[f64], to: &[f64]) -> Self {
        let within = of.iter().zip(to).map(|(of, to)| of / to);
        Self::with_spread(median(of) / median(to), within)
    }

    /// What one way adds to a third, as a multiple of what the other adds to it.
    pub(crate) fn added_ratio(of: &[f64], to: &[f64], without: &[f64]) -> Self {
        let added = |of: f64, to: f64, without: f64| (of - without) / (to - without);
        let rounds = of.iter().zip(to).zip(without);
        let within = rounds.map(|((of, to), without)| added(*of, *to, *without));
        Self::with_spread(added(median(of), median(to), median(without)), within)
    }

    fn with_spread(value: f64, rounds: impl Iterator<Item = f64> + Clone) -> Self {
        Self {
            value,
            low: rounds.clone().fold(f64::INFINITY, f64::min),
            high: rounds.fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

/// Figures below ten are shown with two digits behind the point, others with fewer.
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.value.is_nan() {
            return f.write_str("-");
        }
        let digits = match self.value.abs() {
            ..10.0 => 2,
            ..100.0 => 1,
            _ => 0,
        };
        let Self { value, low, high } = self;
        write!(f, "{value:.digits$} [{low:.digits$}, {high:.digits$}]")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_percentiles_are_computed() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        let all = (1..=101).map(Duration::from_micros).collect();
        let latencies = Latencies::new(all);
        assert!((latencies.percentile_us(0.5) - 51.0).abs() < 1e-6);
        assert!((latencies.percentile_us(0.99) - 100.0).abs() < 1e-6);
    }

    #[test]
    fn a_ratio_compares_medians_and_its_range_compares_rounds() {
        let ratio = Figure::ratio(&[30.0, 60.0, 40.0], &[10.0, 10.0, 20.0]);
        assert_eq!((ratio.value, ratio.low, ratio.high), (4.0, 2.0, 6.0));
        assert_eq!(ratio.to_string(), "4.00 [2.00, 6.00]");
        let added = Figure::added_ratio(&[90.0], &[60.0], &[50.0]);
        assert_eq!(added.value, 4.0);
    }

    #[test]
    fn missing_figures_are_shown_as_a_dash() {
        assert_eq!(Figure::median_of(&[f64::NAN]).to_string(), "-");
        assert_eq!(Figure::median_of(&[]).to_string(), "-");
    }
}
