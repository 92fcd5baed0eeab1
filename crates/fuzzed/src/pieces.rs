//! Streams that arrive in pieces, as a seed says.

/// Cuts a stream into pieces. Seed 0 leaves it whole and seed 1 gives single bytes; any other gives
/// pieces of changing length, some of them empty.
pub(crate) fn pieces(stream: &[u8], seed: u8) -> Vec<&[u8]> {
    match seed {
        0 => vec![stream],
        1 => stream.chunks(1).collect(),
        _ => uneven(stream, seed),
    }
}

fn uneven(mut stream: &[u8], seed: u8) -> Vec<&[u8]> {
    let mut state = u32::from(seed);
    let mut pieces = Vec::new();
    while !stream.is_empty() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let length = (state >> 24) as usize % (usize::from(seed) + 1);
        let (piece, rest) = stream.split_at(length.min(stream.len()));
        pieces.push(piece);
        stream = rest;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_to_the_stream() {
        let stream: Vec<u8> = (0..=255).collect();
        for seed in 0..=255 {
            assert_eq!(pieces(&stream, seed).concat(), stream, "{seed}");
        }
        assert_eq!(pieces(&stream, 1).len(), stream.len());
    }
}
