//! A gateway inside a tokio program: its own tools, everything kept in memory.

use callgate_call::{Exchange, Failure, LocalProvider, Provider, Reply};
use callgate_gate::{Listing, Permit, ServerName, Tool};
use callgate_gateway::Gateway;
use callgate_memory::Memory;
use callgate_record::{ActivityFilter, Recorded};
use callgate_wire::ToolResult;
use futures_util::future::BoxFuture;

const NOW: &[u8] = br#"{"name":"now","inputSchema":{},"annotations":{"readOnlyHint":true}}"#;
const RESET: &[u8] = br#"{"name":"reset","inputSchema":{},"annotations":{"destructiveHint":true}}"#;

/// A provider has a name, tools, and a way to do one call; it is reached only with a recorded permit.
#[derive(Debug)]
struct Clock;

impl LocalProvider for Clock {
    fn server(&self) -> ServerName {
        ServerName::new("clock").expect("a legal name")
    }

    fn listing(&self) -> Listing {
        let tool = |text: &'static [u8]| Tool::from_descriptor(&self.server(), text.into()).ok();
        Listing {
            listed: true,
            tools: [NOW, RESET].map(tool).into_iter().collect(),
            ..Listing::unknown(self.server())
        }
    }
}

impl Provider for Clock {
    fn forward(
        &self,
        call: Recorded<Permit>,
        _: Exchange,
    ) -> BoxFuture<'_, Result<Reply, Failure>> {
        let answer = ToolResult::text("half past nine");
        Box::pin(async move { Reply::of_tool(&call.into_call(), &answer) })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let gateway = Gateway::builder().provider(Clock).build(&Memory::new()?)?;
    for tool in ["clock:now", "clock:reset"] {
        let answer = gateway.call(tool, "{}").await?;
        println!("{tool}: {}", String::from_utf8_lossy(answer.bytes()));
    }
    let page = gateway.stores().archive.page(&ActivityFilter::default())?;
    for record in page.activities {
        println!("{:?} {:?}", record.tool, record.status);
    }
    Ok(gateway.stop(std::time::Duration::from_secs(1)).await?)
}
