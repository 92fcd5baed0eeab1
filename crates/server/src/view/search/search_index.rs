//! The search index of the current catalog snapshot. It is built on the first search after the snapshot changed: never per
//! session, and never while a server connects.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use callgate_call::Providers;
use callgate_find::{Document, Index};
use callgate_gate::{Catalog, Operation, Tool};
use callgate_wire::{Json, Strictness};
use tokio::sync::Mutex;

/// The limit of indexed text per field.
const MAX_TEXT_CHARS: usize = 20_000;
/// The depth to which nested parameters are indexed.
const MAX_DEPTH: usize = 3;
/// The limit of indexed parameters per tool.
const MAX_PARAMETERS: usize = 100;

/// The current index, if one was built.
#[derive(Debug, Default)]
pub(crate) struct SearchIndex {
    current: ArcSwapOption<IndexSnapshot>,
    building: Mutex<()>,
}

/// The tools of one catalog snapshot with their index.
#[derive(Debug)]
pub(crate) struct IndexSnapshot {
    catalog: Arc<Catalog>,
    pub(crate) tools: Vec<IndexedTool>,
    pub(crate) index: Index,
}

#[derive(Debug)]
pub(crate) struct IndexedTool {
    pub(crate) tool: Arc<Tool>,
    /// Whether its server currently lists it.
    pub(crate) is_listed: bool,
    /// Whether `openWorldHint` is literally `true`.
    pub(crate) is_open_world: bool,
    /// Why it is quarantined. Hosts then see nothing of it but its name.
    pub(crate) quarantined: Option<String>,
}

impl IndexedTool {
    /// The operation of its calls. A quarantined tool's hints were not accepted, so it counts as destructive.
    pub(crate) fn operation(&self) -> Operation {
        match self.quarantined {
            Some(_) => Operation::Destructive,
            None => self.tool.hints.operation(),
        }
    }
}

impl SearchIndex {
    /// The index of the current snapshot.
    pub(crate) async fn current(&self, providers: &dyn Providers) -> Arc<IndexSnapshot> {
        let catalog = providers.catalog();
        if let Some(snapshot) = self.of(&catalog) {
            return snapshot;
        }
        // Many hosts search right after a server has connected; one of them builds the index.
        let _one_at_a_time = self.building.lock().await;
        if let Some(snapshot) = self.of(&catalog) {
            return snapshot;
        }
        let built = {
            let catalog = catalog.clone();
            // Indexing thousands of tools takes too long for a thread that also serves calls.
            tokio::task::spawn_blocking(move || IndexSnapshot::new(catalog)).await
        };
        // Only a panic while indexing gets here. An empty index keeps searches working until the next snapshot.
        let built = built.unwrap_or_else(|_| IndexSnapshot::empty(catalog));
        let built = Arc::new(built);
        self.current.store(Some(built.clone()));
        built
    }

    fn of(&self, catalog: &Arc<Catalog>) -> Option<Arc<IndexSnapshot>> {
        let current = self.current.load_full()?;
        Arc::ptr_eq(&current.catalog, catalog).then_some(current)
    }
}

impl IndexSnapshot {
    fn new(catalog: Arc<Catalog>) -> Self {
        let mut tools = Vec::new();
        let mut documents = Vec::new();
        for (tool, is_listed) in catalog.all() {
            let descriptor = Json::validate(&tool.descriptor, Strictness::Envelope).ok();
            let annotations = descriptor.and_then(|json| json.get("annotations"));
            let open_world = annotations.and_then(|json| json.get("openWorldHint"));
            tools.push(IndexedTool {
                tool: tool.clone(),
                is_listed,
                is_open_world: open_world.and_then(|hint| hint.as_bool()) == Some(true),
                quarantined: None,
            });
            documents.push(document(tool, descriptor));
        }
        let quarantined = catalog.quarantined().iter();
        for one in quarantined.filter(|one| one.reason.may_disclose_name()) {
            documents.push(document(&one.tool, None));
            tools.push(IndexedTool {
                tool: Arc::new(one.tool.clone()),
                is_listed: false,
                is_open_world: true,
                quarantined: Some(one.reason.reason_for_hosts()),
            });
        }
        let index = Index::new(&documents);
        Self {
            catalog,
            tools,
            index,
        }
    }

    fn empty(catalog: Arc<Catalog>) -> Self {
        Self {
            catalog,
            tools: Vec::new(),
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

/// Collects the parameters of a schema, including nested ones.
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
