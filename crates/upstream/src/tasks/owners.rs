//! Which token owns each task: the one whose call created it.
//!
//! Over a limit the oldest task is forgotten. A forgotten task is unknown to its own token, too.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use callgate_gate::{Owner, ServerName};
use callgate_wire::Frame;

/// How many tasks are remembered for each token, and for each tenant.
const PER_TOKEN: usize = 10_000;
const PER_TENANT: usize = 100_000;
/// A task with a longer id is not remembered, and so belongs to no token.
const MAX_ID_BYTES: usize = 1024;

/// A server and its own id of a task.
type Task = (ServerName, String);

#[derive(Debug, Default)]
pub(crate) struct TaskOwners {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    tokens: HashMap<Owner, TokenTasks>,
    /// A counter that gives each task its age.
    made: u64,
}

/// The tasks of one token, by age.
#[derive(Debug, Default)]
struct TokenTasks {
    ages: HashMap<Task, u64>,
    by_age: BTreeMap<u64, Task>,
}

impl TokenTasks {
    fn insert(&mut self, task: Task, age: u64) {
        self.remove(&task);
        self.by_age.insert(age, task.clone());
        self.ages.insert(task, age);
    }

    fn remove(&mut self, task: &Task) {
        if let Some(age) = self.ages.remove(task) {
            self.by_age.remove(&age);
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, task)) = self.by_age.pop_first() {
            self.ages.remove(&task);
        }
    }
}

impl TaskOwners {
    /// Notes that a call of this token created a task. If all tokens share the server, an id that it reuses
    /// means a new task, and the token that owned the old one loses it.
    fn note(&self, owner: &Owner, task: Task, is_shared: bool) {
        if task.1.len() > MAX_ID_BYTES {
            return;
        }
        let mut tables = self.lock();
        // Otherwise two tokens would own one id, and the first could read the second's task.
        if is_shared {
            for tasks in tables.tokens.values_mut() {
                tasks.remove(&task);
            }
        }
        tables.made += 1;
        let age = tables.made;
        let own = tables.tokens.entry(owner.clone()).or_default();
        own.insert(task, age);
        if own.ages.len() > PER_TOKEN {
            own.forget_oldest();
        }
        let of_tenant = tables
            .tokens
            .iter_mut()
            .filter(|(known, _)| known.tenant == owner.tenant);
        let mut of_tenant: Vec<&mut TokenTasks> = of_tenant.map(|(_, tasks)| tasks).collect();
        let count: usize = of_tenant.iter().map(|tasks| tasks.ages.len()).sum();
        // From the token with most tasks, so that one token cannot push out the tasks of the others.
        if count > PER_TENANT
            && let Some(largest) = of_tenant.iter_mut().max_by_key(|tasks| tasks.ages.len())
        {
            largest.forget_oldest();
        }
    }

    pub(crate) fn owns(&self, owner: &Owner, server: &ServerName, id: &str) -> bool {
        let task = (server.clone(), id.to_owned());
        let tables = self.lock();
        let tasks = tables.tokens.get(owner);
        tasks.is_some_and(|tasks| tasks.ages.contains_key(&task))
    }

    /// The tokens that own a task with this id: several if the server has a process per token, which may use
    /// the same id.
    pub(crate) fn of(&self, server: &ServerName, id: &str) -> Vec<Owner> {
        let task = (server.clone(), id.to_owned());
        let tables = self.lock();
        let having = tables.tokens.iter();
        let having = having.filter(|(_, tasks)| tasks.ages.contains_key(&task));
        having.map(|(owner, _)| owner.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that may create a task.
#[derive(Debug)]
pub(crate) struct TaskMaker {
    pub(crate) owners: Arc<TaskOwners>,
    pub(crate) owner: Owner,
    pub(crate) server: ServerName,
    /// Whether all tokens use one process of the server.
    pub(crate) is_shared: bool,
}

impl TaskMaker {
    /// Notes the task in a reply. This must happen before the server's next message is read, which may be
    /// about the task.
    pub(crate) fn replied(&self, reply: &Frame) {
        let task = match super::is_task(reply) {
            true => reply.result(),
            false => reply.result_member("task"),
        };
        let id = task.and_then(|task| task.get("taskId")?.as_str());
        if let Some(id) = id {
            let task = (self.server.clone(), id.into_owned());
            self.owners.note(&self.owner, task, self.is_shared);
        }
    }

    pub(super) fn owns(&self, id: &str) -> bool {
        self.owners.owns(&self.owner, &self.server, id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(tenant: &str, principal: &str) -> Owner {
        Owner {
            tenant: tenant.to_owned(),
            principal: principal.to_owned(),
        }
    }

    fn task(id: impl ToString) -> Task {
        (ServerName::new("s").unwrap(), id.to_string())
    }

    #[test]
    fn a_task_belongs_to_its_token_until_its_id_is_reissued() {
        let (owners, s) = (TaskOwners::default(), ServerName::new("s").unwrap());
        let (one, two) = (owner("local", "one"), owner("acme", "two"));
        owners.note(&one, task("t"), false);
        owners.note(&two, task("t"), false);
        assert!(owners.owns(&one, &s, "t") && owners.owns(&two, &s, "t"));
        assert_eq!(owners.of(&s, "t").len(), 2);
        owners.note(&two, task("t"), true);
        assert!(!owners.owns(&one, &s, "t") && owners.owns(&two, &s, "t"));
        assert!(!owners.owns(&two, &s, "u"));
        assert!(!owners.owns(&two, &ServerName::new("r").unwrap(), "t"));
    }

    #[test]
    fn a_token_with_too_many_tasks_loses_its_oldest() {
        let (owners, s) = (TaskOwners::default(), ServerName::new("s").unwrap());
        let (flood, other) = (owner("local", "flood"), owner("local", "other"));
        owners.note(&other, task("theirs"), false);
        for n in 0..PER_TOKEN + 10 {
            owners.note(&flood, task(n), false);
        }
        assert!(owners.owns(&other, &s, "theirs"));
        assert!(!owners.owns(&flood, &s, "0") && owners.owns(&flood, &s, "10"));
    }
}
