//! The other side: a plugin written in Rust.
//!
//! ```no_run
//! use callgate_plugin::sdk::{Input, Operation, Answer, Server};
//!
//! # async fn main_of_a_plugin() -> Result<(), callgate_plugin::sdk::ServeError> {
//! let echo = Operation::new("echo", "Says it again.").input(Input::string("text").required());
//! Server::new("example", "1.0.0")
//!     .operation(echo, |inputs| async move { Answer::text(inputs.text("text").unwrap_or_default()) })
//!     .serve()
//!     .await
//! # }
//! ```
//!
//! [`Server::serve`] speaks go-plugin's handshake, so any host of that kind can start the program. It refuses to
//! run when it was not started by one. With a host's certificate it serves TLS to that host alone; without one
//! it serves on a socket in a folder of its own.

mod listen;
mod services;

use std::{collections::BTreeMap, fmt, future::Future, io, sync::Arc};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use crate::proto::v1::{InputSchema, OperationSchema, OutputSchema};

/// A plugin.
#[derive(Debug)]
pub struct Server {
    name: String,
    version: String,
    description: String,
    operations: Vec<Offered>,
    configured: Arc<dyn Configured>,
}

/// An operation: its name, its inputs and outputs.
#[derive(Debug, Clone)]
pub struct Operation {
    schema: OperationSchema,
}

/// An input of an operation.
#[derive(Debug, Clone)]
pub struct Input {
    schema: InputSchema,
}

/// What an operation was given.
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    values: BTreeMap<String, Value>,
}

/// What an operation answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// For people.
    pub output: String,
    /// For programs.
    pub data: Map<String, Value>,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// Why a plugin does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A person started it.
    #[error("this program is a plugin: a host starts it, and it is of no use by itself")]
    NoHost,
    /// The host speaks other versions.
    #[error("the host speaks versions `{0}` of the plugin protocol, and this is version 1")]
    Version(String),
    /// The host's certificate cannot be read.
    #[error("the host's certificate cannot be read")]
    Certificate,
    /// It cannot listen.
    #[error("the plugin cannot listen: {0}")]
    Listen(#[from] io::Error),
    /// Serving failed.
    #[error("the plugin cannot serve: {0}")]
    Serve(String),
}

/// Told what the host's configuration says; may refuse it.
trait Configured: Send + Sync {
    fn configure(&self, config: Inputs) -> Result<(), String>;
}

impl<F: Fn(Inputs) -> Result<(), String> + Send + Sync> Configured for F {
    fn configure(&self, config: Inputs) -> Result<(), String> {
        self(config)
    }
}

impl fmt::Debug for dyn Configured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Configured")
    }
}

type Handler = Arc<dyn Fn(Inputs) -> BoxFuture<'static, Answer> + Send + Sync>;

/// An operation and what does it.
#[derive(Clone)]
struct Offered {
    schema: OperationSchema,
    handler: Handler,
}

impl fmt::Debug for Offered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offered")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// A plugin without operations.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            description: String::new(),
            operations: Vec::new(),
            configured: Arc::new(|_: Inputs| Ok(())),
        }
    }

    /// Says what it is for.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = text.into();
        self
    }

    /// Is told the host's configuration before anything else, and may refuse it.
    pub fn configure(
        mut self,
        configured: impl Fn(Inputs) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.configured = Arc::new(configured);
        self
    }

    /// Adds an operation.
    pub fn operation<F>(
        mut self,
        operation: Operation,
        handler: impl Fn(Inputs) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        self.operations.push(Offered {
            schema: operation.schema,
            handler: Arc::new(move |inputs| Box::pin(handler(inputs))),
        });
        self
    }

    /// Serves the host that started this program, until that says that it is over.
    pub async fn serve(self) -> Result<(), ServeError> {
        listen::serve(self).await
    }
}

impl Operation {
    /// An operation without inputs.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            schema: OperationSchema {
                name: name.into(),
                description: description.into(),
                ..OperationSchema::default()
            },
        }
    }

    /// Adds an input.
    pub fn input(mut self, input: Input) -> Self {
        self.schema.inputs.push(input.schema);
        self
    }

    /// Names something in its data.
    pub fn output(
        mut self,
        name: impl Into<String>,
        kind: impl Into<String>,
        description: impl Into<String>,
    ) -> Self {
        self.schema.outputs.push(OutputSchema {
            name: name.into(),
            r#type: kind.into(),
            description: description.into(),
        });
        self
    }
}

impl Input {
    /// A text.
    pub fn string(name: impl Into<String>) -> Self {
        Self::of(name.into(), "string")
    }

    /// A whole number.
    pub fn integer(name: impl Into<String>) -> Self {
        Self::of(name.into(), "integer")
    }

    /// Yes or no.
    pub fn boolean(name: impl Into<String>) -> Self {
        Self::of(name.into(), "boolean")
    }

    /// A list.
    pub fn array(name: impl Into<String>) -> Self {
        Self::of(name.into(), "array")
    }

    /// An object.
    pub fn object(name: impl Into<String>) -> Self {
        Self::of(name.into(), "object")
    }

    fn of(name: String, kind: &str) -> Self {
        Self {
            schema: InputSchema {
                name,
                r#type: kind.to_owned(),
                ..InputSchema::default()
            },
        }
    }

    /// It must be there.
    pub fn required(mut self) -> Self {
        self.schema.required = true;
        self
    }

    /// What it is for.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.schema.description = text.into();
        self
    }

    /// What counts when it is left out, as text; whoever calls is told, and the handler fills it in.
    pub fn default(mut self, text: impl Into<String>) -> Self {
        self.schema.default = text.into();
        self
    }

    /// It must be a URL.
    pub fn url(mut self) -> Self {
        self.schema.validation = "url".to_owned();
        self
    }

    /// It must be an e-mail address.
    pub fn email(mut self) -> Self {
        self.schema.validation = "email".to_owned();
        self
    }
}

impl Inputs {
    /// A value.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// A text.
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name)?.as_str().map(str::to_owned)
    }
}

impl Answer {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            output: text.into(),
            ..Self::default()
        }
    }

    /// A failure.
    pub fn failure(why: impl Into<String>) -> Self {
        Self {
            error: Some(why.into()),
            ..Self::default()
        }
    }

    /// Adds something for programs.
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.data.insert(name.into(), value.into());
        self
    }
}
