//! What a server lists: requested when it connects and when it announces a change, and kept for the
//! catalog and for the next start.

use callgate_gate::{Items, Offers};
use futures_util::future::try_join_all;

use super::{Server, ServerStatus};
use crate::{
    connection::Connection,
    definitions::Definitions,
    handshake::HandshakeError,
    lists::{Listed, Lists, OtherLists, ToolList, list_prompts, list_resources, list_tools},
};

/// A list as the server just answered it.
pub(super) enum FetchedList {
    Tools(Listed<ToolList>),
    Prompts(Listed<Items>),
    Resources(Listed<Items>, Listed<Items>),
}

impl Server {
    /// Requests some of a server's lists concurrently. Only the tool list can fail: a server without tools
    /// is unusable, other faulty lists become complaints.
    pub(super) async fn ask(
        &self,
        connection: &Connection,
        requested: &[Lists],
        offers: Offers,
    ) -> Result<Vec<FetchedList>, HandshakeError> {
        let server = &self.spec.name;
        let one = |lists: &Lists| {
            let lists = *lists;
            async move {
                Ok(match lists {
                    Lists::Tools if !offers.tools => FetchedList::Tools(Listed::empty()),
                    Lists::Tools => FetchedList::Tools(list_tools(connection, server).await?),
                    Lists::Prompts => {
                        FetchedList::Prompts(list_prompts(connection, server, offers).await)
                    }
                    Lists::Resources => {
                        let (resources, templates) =
                            list_resources(connection, server, offers).await;
                        FetchedList::Resources(resources, templates)
                    }
                })
            }
        };
        try_join_all(requested.iter().map(one)).await
    }

    /// Takes over what a server listed.
    pub(super) async fn apply_lists(&self, fresh: Vec<FetchedList>) {
        let before = {
            let state = self.state.borrow();
            (state.tools.clone(), state.others.clone())
        };
        let mut new_complaints = Vec::new();
        self.state.send_modify(|state| {
            state.listed = true;
            for list in fresh {
                let (lists, complaints) = match list {
                    FetchedList::Tools(Listed { list, complaints }) => {
                        state.tools = Some(list.tools);
                        state.extras = list.extras;
                        (Lists::Tools, complaints)
                    }
                    FetchedList::Prompts(Listed { list, complaints }) => {
                        state.others.prompts = list;
                        (Lists::Prompts, complaints)
                    }
                    FetchedList::Resources(resources, templates) => {
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
        // The catalog first: callers that wait for the first connect read it as soon as the status changes.
        (self.on_change)().await;
        self.state.send_modify(|state| {
            let all = Lists::ALL.iter().filter_map(|l| state.complaints.get(l));
            let all: Vec<String> = all.flatten().cloned().collect();
            state.status = match all.is_empty() {
                true => ServerStatus::Ok,
                false => ServerStatus::Degraded,
            };
            state.reason = (!all.is_empty()).then(|| all.join("; "));
        });
        self.log_complaints(&new_complaints);
        let after = {
            let state = self.state.borrow();
            (state.tools.clone(), state.others.clone())
        };
        if before != after {
            self.save_definitions();
        }
    }

    /// Saves the definitions for the next start.
    fn save_definitions(&self) {
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

    pub(super) fn log_complaints(&self, complaints: &[String]) {
        for complaint in complaints {
            crate::log::list_faulty(&self.spec.name, complaint);
        }
    }
}
