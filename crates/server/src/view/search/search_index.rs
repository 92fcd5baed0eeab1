//! The shelf: all tools of the current snapshot with their index, made when it is first searched and again when
//! the snapshot is another. Never per session, and never while a server connects.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use callgate_call::Providers;
use callgate_find::{Document, Index};
use callgate_gate::{Catalog, Operation, Tool};
use callgate_wire::{Json, Strictness};
use tokio::sync::Mutex;

/// Text of a tool beyond this is not indexed.
const MAX_TEXT_CHARS: usize = 20_000;
/// How deep parameters are looked for.
const MAX_DEPTH: usize = 3;
/// How many parameters of a tool are indexed.
const MAX_PARAMETERS: usize = 100;

/// All tools and their index.
#[derive(Debug, Default)]
pub(crate) struct SearchIndex {
    current: ArcSwapOption<IndexSnapshot>,
    making: Mutex<()>,
}

/// The tools of one snapshot.
#[derive(Debug)]
pub(crate) struct IndexSnapshot {
    catalog: Arc<Catalog>,
    pub(crate) books: Vec<IndexedTool>,
    pub(crate) index: Index,
}

/// One tool.
#[derive(Debug)]
pub(crate) struct IndexedTool {
    pub(crate) tool: Arc<Tool>,
    /// Whether hosts see it, as far as its server goes.
    pub(crate) is_listed: bool,
    /// `openWorldHint`, where it is literally true.
    pub(crate) is_open_world: bool,
    /// Why it is kept away, where it is. Then nothing that it says about itself is told but its name.
    pub(crate) quarantined: Option<String>,
}

impl IndexedTool {
    /// What calls of it can do, as far as that was accepted: a tool that is kept away can do anything.
    pub(crate) fn operation(&self) -> Operation {
        match self.quarantined {
            Some(_) => Operation::Destructive,
            None => self.tool.hints.operation(),
        }
    }
}

impl SearchIndex {
    /// The shelf of the current snapshot.
    pub(crate) async fn current(&self, providers: &dyn Providers) -> Arc<IndexSnapshot> {
        let catalog = providers.catalog();
        if let Some(shelved) = self.of(&catalog) {
            return shelved;
        }
        let _one_at_a_time = self.making.lock().await;
        if let Some(shelved) = self.of(&catalog) {
            return shelved;
        }
        let made = {
            let catalog = catalog.clone();
            tokio::task::spawn_blocking(move || IndexSnapshot::new(catalog)).await
        };
        // Texts cannot make it panic; were one to, this snapshot would be searched without them.
        let made = made.unwrap_or_else(|_| IndexSnapshot::empty(catalog));
        let made = Arc::new(made);
        self.current.store(Some(made.clone()));
        made
    }

    fn of(&self, catalog: &Arc<Catalog>) -> Option<Arc<IndexSnapshot>> {
        let current = self.current.load_full()?;
        Arc::ptr_eq(&current.catalog, catalog).then_some(current)
    }
}

impl IndexSnapshot {
    fn new(catalog: Arc<Catalog>) -> Self {
        let mut books = Vec::new();
        let mut documents = Vec::new();
        for (tool, is_listed) in catalog.all() {
            let descriptor = Json::validate(&tool.descriptor, Strictness::Envelope).ok();
            let annotations = descriptor.and_then(|json| json.get("annotations"));
            let open_world = annotations.and_then(|json| json.get("openWorldHint"));
            books.push(IndexedTool {
                tool: tool.clone(),
                is_listed,
                is_open_world: open_world.and_then(|hint| hint.as_bool()) == Some(true),
                quarantined: None,
            });
            documents.push(document(tool, descriptor));
        }
        let kept_away = catalog.quarantined().iter();
        for one in kept_away.filter(|one| one.reason.lets_its_name_be_told()) {
            documents.push(document(&one.tool, None));
            books.push(IndexedTool {
                tool: Arc::new(one.tool.clone()),
                is_listed: false,
                is_open_world: true,
                quarantined: Some(one.reason.told_to_hosts()),
            });
        }
        let index = Index::new(&documents);
        Self {
            catalog,
            books,
            index,
        }
    }

    fn empty(catalog: Arc<Catalog>) -> Self {
        Self {
            catalog,
            books: Vec::new(),
            index: Index::default(),
        }
    }
}

fn document(tool: &Tool, descriptor: Option<Json<'_>>) -> Document {
    let text = |json: Option<Json<'_>>, key| {
        let text = json.and_then(|json| json.get(key)?.as_str());
        text.map(|text| text.chars().take(MAX_TEXT_CHARS).collect())
            .unwrap_or_default()
    };
    let annotations = descriptor.and_then(|json| json.get("annotations"));
    let title: String = text(descriptor, "title");
    let title = if title.is_empty() {
        text(annotations, "title")
    } else {
        title
    };
    let mut parameters = Vec::new();
    if let Some(schema) = descriptor.and_then(|json| json.get("inputSchema")) {
        gather(schema, MAX_DEPTH, &mut parameters);
    }
    Document {
        name: tool.name.clone(),
        server: tool.server.to_string(),
        title,
        description: text(descriptor, "description"),
        parameters,
    }
}

/// The parameters of a schema, those inside others included.
fn gather(schema: Json<'_>, depth: usize, parameters: &mut Vec<(String, String)>) {
    let Some(properties) = schema.get("properties").filter(|_| depth > 0) else {
        return;
    };
    for (name, property) in properties.members() {
        if parameters.len() >= MAX_PARAMETERS {
            return;
        }
        let text = property.get("description").and_then(|text| text.as_str());
        let text = text
            .unwrap_or_default()
            .chars()
            .take(MAX_TEXT_CHARS)
            .collect();
        parameters.push((name.as_str().unwrap_or_default().into_owned(), text));
        gather(property, depth - 1, parameters);
        if let Some(items) = property.get("items") {
            gather(items, depth - 1, parameters);
        }
    }
}
