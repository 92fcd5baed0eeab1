//! What `--help` says first, of the whole and of each command.

use expect_test::{Expect, expect};

use crate::setup::Bed;
use crate::shell::{run, typed};

/// The lines of a help text before its options.
fn outline(help: &str) -> String {
    let lines = help.lines().take_while(|line| *line != "Options:");
    let lines: Vec<&str> = lines.collect();
    format!("{}\n", lines.join("\n").trim_end())
}

fn check_help(args: &[&str], expected: &Expect) {
    let bed = Bed::new("");
    let ran = run(typed(&bed, args).arg("--help"));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{args:?}");
    expected.assert_eq(&outline(&ran.stdout));
}

#[test]
fn help_of_the_whole() {
    check_help(
        &[],
        &expect![[r#"
            One gate for every tool call an AI agent makes.

            Callgate stands between agents and their tools. It checks each call against policy, forwards it
            untouched and keeps a record that loses nothing.

            Start with `callgate demo` to see a call go through, then `callgate serve` or `callgate stdio`.

            Usage: callgate [OPTIONS] [COMMAND]

            Commands:
              demo       See a call go through the gate, with a bundled server; needs nothing
              serve      Serve MCP over HTTP on one port
              stdio      Serve MCP on standard input and output, for hosts that start their servers
              call       Call one tool through the gate and print its result
              run        Run a script over all servers, as the tool `run` of the code view does
              tools      The tools there are
              servers    The servers there are
              activity   What happened: every call on record
              approvals  Calls that need a person: see them, approve them, deny them
              policy     Check, test, explain and replay policy files
              agent      Run a coding agent for one task, with the gate as where its tools come from
              workflow   Run state machines of commands, agents and plugins
              validate   Say everything that is wrong with a workflow: the same as `workflow validate`
              explain    Say what a code means
              connect    How to connect a host
              config     Check the configuration, or show what is in effect
              doctor     Check the installation and say what is wrong
              trust      Allow the callgate.yaml of a folder to be used, or a plugin that was found there
              token      Tokens for agents, approvers and admins
              lock       Look at what tools said when they were accepted, and accept what they say now
              help       Print this message or the help of the given subcommand(s)
        "#]],
    );
}

#[test]
fn help_of_demo_doctor_and_trust() {
    check_help(
        &["demo"],
        &expect![[r#"
        See a call go through the gate, with a bundled server; needs nothing

        Usage: callgate demo [OPTIONS]
    "#]],
    );
    check_help(
        &["doctor"],
        &expect![[r#"
        Check the installation and say what is wrong

        Usage: callgate doctor [OPTIONS]
    "#]],
    );
    check_help(
        &["trust"],
        &expect![[r#"
            Allow the callgate.yaml of a folder to be used, or a plugin that was found there

            Usage: callgate trust [OPTIONS] [FILE]

            Arguments:
              [FILE]  The file, the folder of a plugin, or a list of plugins; `./callgate.yaml` when left out
        "#]],
    );
}

#[test]
fn help_of_serve_and_stdio() {
    check_help(
        &["serve"],
        &expect![[r#"
        Serve MCP over HTTP on one port

        Usage: callgate serve [OPTIONS]
    "#]],
    );
    check_help(
        &["stdio"],
        &expect![[r#"
        Serve MCP on standard input and output, for hosts that start their servers

        Usage: callgate stdio [OPTIONS]
    "#]],
    );
}

#[test]
fn help_of_call_tools_and_servers() {
    check_help(
        &["call"],
        &expect![[r#"
            Call one tool through the gate and print its result

            Usage: callgate call [OPTIONS] <FIRST> [ARGS]

            Arguments:
              <FIRST>  The tool as `server:tool`, or as hosts see it; or tool-read, tool-write or
                       tool-destructive in front of it
              [ARGS]   Its arguments, a JSON object; behind tool-read and the like the tool
        "#]],
    );
    check_help(
        &["tools"],
        &expect![[r#"
            The tools there are

            Usage: callgate tools [OPTIONS] <COMMAND>

            Commands:
              list    List every tool, as hosts see it
              search  Find tools by what they are for
              show    Show the whole descriptor of a tool
              help    Print this message or the help of the given subcommand(s)
        "#]],
    );
    check_help(
        &["tools", "list"],
        &expect![[r#"
        List every tool, as hosts see it

        Usage: callgate tools list [OPTIONS]
    "#]],
    );
    check_help(
        &["servers"],
        &expect![[r#"
        The servers there are

        Usage: callgate servers [OPTIONS] <COMMAND>

        Commands:
          list  List every server and how it stands
          logs  Show what a server wrote to its standard error
          help  Print this message or the help of the given subcommand(s)
    "#]],
    );
    check_help(
        &["servers", "logs"],
        &expect![[r#"
        Show what a server wrote to its standard error

        Usage: callgate servers logs [OPTIONS] <NAME>

        Arguments:
          <NAME>  The server
    "#]],
    );
}

#[test]
fn help_of_activity_and_connect() {
    check_help(
        &["activity"],
        &expect![[r#"
            What happened: every call on record

            Usage: callgate activity [OPTIONS] <COMMAND>

            Commands:
              list     List calls, newest first
              show     Show one call whole
              watch    Show calls as they happen
              summary  Count calls of each sort
              verify   Check that nothing was changed, dropped or cut off
              head     Print where each writer stands, to be kept elsewhere
              export   Write calls out, oldest first
              help     Print this message or the help of the given subcommand(s)
        "#]],
    );
    check_help(
        &["connect"],
        &expect![[r#"
        How to connect a host

        Usage: callgate connect [OPTIONS] --print <HOST>
    "#]],
    );
}
