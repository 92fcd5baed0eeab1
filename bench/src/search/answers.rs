//! What a model reads in the `search` view: the view's own list, and compact answers over a catalog of some hundred
//! tools. Fails when a budget is broken.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{
    quality::{median, tokens},
    words::{NOUNS, VERBS, documents},
};
use crate::gateway::{
    host::HttpHost,
    start::{Setup, Wrapper, runtime},
};

/// Tools in the catalog.
const TOOLS: usize = 500;
const OWN_LIST: usize = 2500;
const MEDIAN: usize = 700;
const MOST: usize = 1500;

/// The answer to `tools/list` of a server with so many everyday tools.
pub(crate) fn catalog(count: usize) -> String {
    let tool = |document: &callgate_find::Document| {
        let properties = document.parameters.iter().map(|(name, description)| {
            let schema = json!({"type": "string", "description": description});
            (name.clone(), schema)
        });
        let properties: serde_json::Map<String, Value> = properties.collect();
        let schema = json!({"type": "object", "required": ["id"], "properties": properties});
        json!({"name": document.name, "description": document.description, "inputSchema": schema})
    };
    let tools: Vec<Value> = documents(count).iter().map(tool).collect();
    json!({"tools": tools}).to_string()
}

/// Measures, prints and compares with the budgets.
pub(crate) fn run() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let setup = Setup::searched(folder.path(), TOOLS)?;
    let (_gateway, target) = setup.serve(&Wrapper::default())?;
    let (own, mut sizes) = runtime()?.block_on(async {
        let mut host = HttpHost::connect(&target).await?;
        let mut own = 0;
        host.list(|page| own += tokens(&String::from_utf8_lossy(page)))
            .await?;
        let mut sizes = Vec::new();
        for at in 0..TOOLS {
            let (verb, noun) = (
                VERBS[at % VERBS.len()],
                NOUNS[at / VERBS.len() % NOUNS.len()],
            );
            sizes.push(compact(&mut host, &format!("{verb} the {noun} of a customer")).await?);
        }
        anyhow::Ok((own, sizes))
    })?;
    sizes.sort_unstable();
    let most = sizes.last().copied().unwrap_or_default();
    let told = [
        ("the view's own list", own, OWN_LIST),
        ("compact answers, median", median(&sizes), MEDIAN),
        ("compact answers, most", most, MOST),
    ];
    println!(
        "\n{:<52} {:>12} {:>25}",
        "what a model reads", "tokens", "budget"
    );
    for (what, tokens, budget) in told {
        println!("{what:<52} {tokens:>12} {budget:>25}");
    }
    match told.iter().find(|(_, tokens, budget)| tokens > budget) {
        Some((what, tokens, _)) => bail!("{what}: {tokens} tokens"),
        None => Ok(()),
    }
}

/// The tokens of a compact answer.
async fn compact(host: &mut HttpHost, query: &str) -> Result<usize> {
    let arguments = json!({"query": query, "detail": "compact"});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "retrieve_tools", "arguments": arguments}});
    let answer = host.post(request.to_string().into()).await?;
    let answer: Value = serde_json::from_slice(&answer)?;
    let text = answer["result"]["content"][0]["text"].as_str();
    let text = text.with_context(|| format!("no answer: {answer}"))?;
    if !text.contains("signature") {
        bail!("nothing was found for `{query}`");
    }
    Ok(tokens(text))
}
