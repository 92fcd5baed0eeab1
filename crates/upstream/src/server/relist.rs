//! What a server lists: asked for when it comes and when it says that something has changed, and kept
//! for the catalog and for the next start.

use callgate_gate::{Items, Offers};
use futures_util::future::try_join_all;

use super::{Server, ServerStatus};
use crate::{
    connection::Connection,
    definitions::Definitions,
    handshake::HandshakeError,
    lists::{Listed, Lists, OtherLists, ToolList, list_prompts, list_resources, list_tools},
};

/// A list that was just asked for.
pub(super) enum Fresh {
    Tools(Listed<ToolList>),
    Prompts(Listed<Items>),
    Resources(Listed<Items>, Listed<Items>),
}

impl Server {
    /// Asks a server for some of its lists, all at once. Only tools can fail.
    pub(super) async fn ask(
        &self,
        connection: &Connection,
        wanted: &[Lists],
        offers: Offers,
    ) -> Result<Vec<Fresh>, HandshakeError> {
        let server = &self.spec.name;
        let one = |lists: &Lists| {
            let lists = *lists;
            async move {
                Ok(match lists {
                    Lists::Tools if !offers.tools => Fresh::Tools(Listed::empty()),
                    Lists::Tools => Fresh::Tools(list_tools(connection, server).await?),
                    Lists::Prompts => {
                        Fresh::Prompts(list_prompts(connection, server, offers).await)
                    }
                    Lists::Resources => {
                        let (resources, templates) =
                            list_resources(connection, server, offers).await;
                        Fresh::Resources(resources, templates)
                    }
                })
            }
        };
        try_join_all(wanted.iter().map(one)).await
    }

    /// Takes over what a server listed.
    pub(super) fn relisted(&self, fresh: Vec<Fresh>) {
        let before = {
            let state = self.state.borrow();
            (state.tools.clone(), state.others.clone())
        };
        let mut new_complaints = Vec::new();
        self.state.send_modify(|state| {
            state.listed = true;
            for list in fresh {
                let (lists, complaints) = match list {
                    Fresh::Tools(Listed { list, complaints }) => {
                        state.tools = Some(list.tools);
                        state.extras = list.extras;
                        (Lists::Tools, complaints)
                    }
                    Fresh::Prompts(Listed { list, complaints }) => {
                        state.others.prompts = list;
                        (Lists::Prompts, complaints)
                    }
                    Fresh::Resources(resources, templates) => {
                        let OtherLists { prompts, .. } = std::mem::take(&mut state.others);
                        state.others = OtherLists {
                            prompts,
                            resources: resources.list,
                            templates: templates.list,
                        };
                        let complaints = [resources.complaints, templates.complaints].concat();
                        (Lists::Resources, complaints)
                    }
                };
                new_complaints.extend(complaints.clone());
                state.complaints.insert(lists, complaints);
            }
        });
        // Whoever waits for the first connect looks into the catalog next, so that comes first.
        (self.on_change)();
        self.state.send_modify(|state| {
            let all = Lists::ALL.iter().filter_map(|l| state.complaints.get(l));
            let all: Vec<String> = all.flatten().cloned().collect();
            state.status = match all.is_empty() {
                true => ServerStatus::Ok,
                false => ServerStatus::Degraded,
            };
            state.reason = (!all.is_empty()).then(|| all.join("; "));
        });
        self.complain(&new_complaints);
        let after = {
            let state = self.state.borrow();
            (state.tools.clone(), state.others.clone())
        };
        if before != after {
            self.remember();
        }
    }

    /// Keeps what the server says for the next start.
    fn remember(&self) {
        let Some(folder) = &self.supplies.options.definitions_dir else {
            return;
        };
        let state = self.state.borrow().clone();
        let definitions = Definitions {
            capabilities: state.capabilities.unwrap_or_else(|| "{}".to_owned()),
            instructions: state.instructions,
            tools: state.tools.unwrap_or_default(),
            extras: state.extras,
            others: state.others,
        };
        definitions.save(folder, &self.spec.name, &self.spec.launch);
    }

    pub(super) fn complain(&self, complaints: &[String]) {
        for complaint in complaints {
            crate::log::list_has_a_fault(&self.spec.name, complaint);
        }
    }
}
