//! A plugin on the raw protocol.

fn main() -> anyhow::Result<()> {
    callgate_testkit::goplugin::plugin::main()
}
