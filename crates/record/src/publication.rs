//! Published heads: kept away from the data folder, they reveal later that entries were cut off or replaced.
//!
//! A file of them has one JSON object per line, oldest first, and is only ever added to. A file that was replaced each time
//! would lose its evidence as soon as a shortened log is published over it.

use std::collections::HashSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Head, KeyedHead};

/// One line of a file, or the body of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    pub at: Timestamp,
    pub heads: Vec<KeyedHead>,
}

/// The heads of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublishedHeads {
    /// Each once.
    pub heads: Vec<Head>,
    /// The numbers of lines that a crash or power cut left unfinished.
    pub unfinished: Vec<usize>,
}

/// A text that does not consist of heads.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct NotHeads {
    pub line: usize,
    pub reason: String,
}

impl PublishedHeads {
    /// Reads a file of publications, one of them alone, or a list of keyed heads.
    pub fn read(text: &[u8]) -> Result<Self, NotHeads> {
        if let Ok(list) = serde_json::from_slice::<Vec<KeyedHead>>(text) {
            return Ok(Self::of(list));
        }
        if let Ok(one) = serde_json::from_slice::<Publication>(text) {
            return Ok(Self::of(one.heads));
        }
        let (mut keyed, mut unfinished) = (Vec::new(), Vec::new());
        let lines = text.split(|byte| *byte == b'\n').enumerate();
        for (at, line) in lines.filter(|(_, line)| !line.trim_ascii().is_empty()) {
            match serde_json::from_slice::<Publication>(line) {
                Ok(publication) => keyed.extend(publication.heads),
                Err(error) if error.is_eof() => unfinished.push(at + 1),
                Err(error) => {
                    return Err(NotHeads {
                        line: at + 1,
                        reason: error.to_string(),
                    });
                }
            }
        }
        Ok(Self {
            unfinished,
            ..Self::of(keyed)
        })
    }

    // Not only the newest of each writer: a chain that was replaced behind an early head can have been published again.
    fn of(keyed: Vec<KeyedHead>) -> Self {
        let mut seen = HashSet::new();
        let heads = keyed.into_iter().map(|keyed| keyed.head);
        let is_new = |head: &Head| seen.insert((head.writer, head.seq, head.hash.clone()));
        Self {
            heads: heads.filter(is_new).collect(),
            unfinished: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use ulid::Ulid;

    use super::*;
    use crate::WriterId;

    fn keyed(seq: u64, hash: &str) -> KeyedHead {
        let head = Head {
            writer: WriterId(Ulid::nil()),
            seq,
            hash: hash.to_owned(),
        };
        let mac = "00".to_owned();
        KeyedHead { head, mac }
    }

    fn line(heads: &[KeyedHead]) -> String {
        let at = Timestamp::UNIX_EPOCH;
        let heads = heads.to_vec();
        serde_json::to_string(&Publication { at, heads }).unwrap()
    }

    /// The numbers and hashes of the heads, and the lines that end early.
    type Read = (Vec<(u64, String)>, Vec<usize>);

    fn read(text: &str) -> Result<Read, String> {
        let read = PublishedHeads::read(text.as_bytes())
            .map_err(|error| format!("line {}", error.line))?;
        let heads = read.heads.into_iter().map(|head| (head.seq, head.hash));
        Ok((heads.collect(), read.unfinished))
    }

    #[test]
    fn every_different_head_of_a_file_is_read() {
        let known = |seq: u64, hash: &str| (seq, hash.to_owned());
        let (one, two) = (keyed(1, "a"), keyed(2, "b"));
        let other = keyed(2, "c");
        let first = line(&[one.clone(), two.clone()]);
        let all = vec![known(1, "a"), known(2, "b"), known(2, "c")];
        let file = format!(
            "{first}\n{}\n{}\n",
            line(std::slice::from_ref(&two)),
            line(&[other])
        );
        assert_eq!(read(&file), Ok((all, vec![])));

        let both = vec![known(1, "a"), known(2, "b")];
        let list = serde_json::to_string(&[one, two]).unwrap();
        assert_eq!(read(&list), Ok((both.clone(), vec![])));
        let value: serde_json::Value = serde_json::from_str(&first).unwrap();
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(read(&pretty), Ok((both.clone(), vec![])));
        let torn = format!("{}\n{first}\n{}", &first[..30], &first[..9]);
        assert_eq!(read(&torn), Ok((both, vec![1, 3])));
        assert_eq!(read(""), Ok((vec![], vec![])));
    }

    #[test]
    fn text_that_is_not_about_heads_is_refused() {
        for (text, at) in [("{}", 1), ("hello", 1), ("\n[1]", 2)] {
            assert_eq!(read(text), Err(format!("line {at}")), "{text}");
        }
        let damaged = format!("{}\n{}", line(&[]), line(&[]).replace("heads", "hands"));
        assert_eq!(read(&damaged), Err("line 2".to_owned()));
    }
}
