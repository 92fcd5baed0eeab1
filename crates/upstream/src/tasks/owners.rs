//! Which token each task belongs to: the one whose call made it.
//!
//! A tenant that has too many tasks forgets the oldest ones of the token that makes one more. A forgotten task is unknown to its
//! token, too.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use callgate_gate::{Owner, ServerName};
use callgate_wire::Frame;

/// Tasks that are remembered for each token, and for each tenant.
const PER_TOKEN: usize = 10_000;
const PER_TENANT: usize = 100_000;
/// A task with a longer id is not remembered, and so is unknown.
const MAX_ID_BYTES: usize = 1024;

/// A server and its own id of a task.
type Task = (ServerName, String);

/// The owners of all tasks.
#[derive(Debug, Default)]
pub(crate) struct TaskOwners {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    tokens: HashMap<Owner, OfToken>,
    /// Counts the tasks, for their age.
    made: u64,
}

/// The tasks of one token, by age.
#[derive(Debug, Default)]
struct OfToken {
    ages: HashMap<Task, u64>,
    by_age: BTreeMap<u64, Task>,
}

impl OfToken {
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
    /// Notes that a call of this token made a task. Where the server keeps the tasks of all tokens in one place, an id that it
    /// gives again means a new task, and the token that had the old one loses it.
    fn note(&self, owner: &Owner, task: Task, is_shared: bool) {
        if task.1.len() > MAX_ID_BYTES {
            return;
        }
        let mut tables = self.lock();
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
        let mut of_tenant: Vec<&mut OfToken> = of_tenant.map(|(_, tasks)| tasks).collect();
        let count: usize = of_tenant.iter().map(|tasks| tasks.ages.len()).sum();
        if count > PER_TENANT
            && let Some(largest) = of_tenant.iter_mut().max_by_key(|tasks| tasks.ages.len())
        {
            largest.forget_oldest();
        }
    }

    /// Whether a task is this token's.
    pub(crate) fn owns(&self, owner: &Owner, server: &ServerName, id: &str) -> bool {
        let task = (server.clone(), id.to_owned());
        let tables = self.lock();
        let tasks = tables.tokens.get(owner);
        tasks.is_some_and(|tasks| tasks.ages.contains_key(&task))
    }

    /// The tokens that have a task of this id. Processes of one server that serve one token each may use an id twice.
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

/// A call that may make a task.
#[derive(Debug)]
pub(crate) struct TaskMaker {
    pub(crate) owners: Arc<TaskOwners>,
    pub(crate) owner: Owner,
    pub(crate) server: ServerName,
    /// Whether all tokens talk to one process of the server.
    pub(crate) is_shared: bool,
}

impl TaskMaker {
    /// Notes the task that a reply tells of. This must happen before the next message of the server is read: it may be about
    /// the task.
    pub(crate) fn replied(&self, reply: &Frame) {
        let id = reply
            .result_member("task")
            .and_then(|task| task.get("taskId")?.as_str());
        if let Some(id) = id {
            let task = (self.server.clone(), id.into_owned());
            self.owners.note(&self.owner, task, self.is_shared);
        }
    }

    /// Whether a task of the server is the caller's.
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
