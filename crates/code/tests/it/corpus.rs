//! Snippets as agents write them. The share that runs is printed.

use callgate_code::Limits;

use crate::stage::{pool, run};

const SNIPPETS: &str = include_str!("corpus.txt");

/// Fewer than this, in percent, is a step back.
const LEAST_SHARE: usize = 90;

#[tokio::test]
async fn most_snippets_run() {
    let pool = pool();
    let snippets: Vec<&str> = SNIPPETS.split("\n---\n").collect();
    assert!(snippets.len() >= 100, "{}", snippets.len());
    let mut ran = 0;
    for snippet in &snippets {
        match run(&pool, snippet, &Limits::default()).await {
            Ok(_) => ran += 1,
            Err(error) => {
                println!("does not run: {error}\n{snippet}\n");
                assert!(error.contains("use "), "it says what to write: {error}");
            }
        }
    }
    let share = ran * 100 / snippets.len();
    println!("{ran} of {} snippets run: {share} %", snippets.len());
    assert!(share >= LEAST_SHARE, "{share} %");
}
