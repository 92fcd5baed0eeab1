//! Table: phrases that mean a single word.

/// A phrase and the word that it means.
const PHRASES: &[(&[&str], &str)] = &[
    (&["as", "soon", "as"], "when"),
    (&["at", "once"], "multiple"),
    (&["back", "up"], "backup"),
    (&["bring", "back"], "restore"),
    (&["calendar", "entry"], "event"),
    (&["call", "off"], "cancel"),
    (&["carry", "out"], "execute"),
    (&["check", "out"], "checkout"),
    (&["clean", "up"], "cleanup"),
    (&["close", "to"], "nearby"),
    (&["come", "back"], "return"),
    (&["come", "up", "with"], "generate"),
    (&["cut", "down"], "trim"),
    (&["direct", "message"], "dm"),
    (&["e", "mail"], "email"),
    (&["figure", "out"], "determine"),
    (&["fill", "in"], "fill"),
    (&["fill", "out"], "fill"),
    (&["find", "out"], "get"),
    (&["free", "up"], "release"),
    (&["get", "rid", "of"], "delete"),
    (&["give", "back"], "return"),
    (&["go", "through"], "read"),
    (&["hand", "over"], "transfer"),
    (&["how", "big"], "size"),
    (&["how", "large"], "size"),
    (&["how", "long"], "duration"),
    (&["how", "many"], "count"),
    (&["how", "much"], "amount"),
    (&["how", "often"], "frequency"),
    (&["in", "charge", "of"], "owner"),
    (&["jot", "down"], "write"),
    (&["keep", "track", "of"], "track"),
    (&["key", "value"], "keyvalue"),
    (&["kick", "off"], "start"),
    (&["kill", "off"], "kill"),
    (&["leave", "out"], "exclude"),
    (&["log", "in"], "login"),
    (&["log", "on"], "login"),
    (&["log", "out"], "logout"),
    (&["look", "at"], "get"),
    (&["look", "for"], "search"),
    (&["look", "over"], "review"),
    (&["look", "through"], "search"),
    (&["look", "up"], "lookup"),
    (&["make", "sure"], "ensure"),
    (&["money", "back"], "refund"),
    (&["not", "yet"], "pending"),
    (&["note", "down"], "write"),
    (&["on", "call"], "oncall"),
    (&["opt", "out"], "unsubscribe"),
    (&["out", "of", "date"], "outdated"),
    (&["pick", "up"], "get"),
    (&["pull", "down"], "download"),
    (&["push", "back"], "postpone"),
    (&["put", "back"], "restore"),
    (&["put", "off"], "postpone"),
    (&["right", "now"], "current"),
    (&["roll", "back"], "rollback"),
    (&["scale", "down"], "scale"),
    (&["scale", "up"], "scale"),
    (&["set", "up"], "setup"),
    (&["shut", "down"], "shutdown"),
    (&["sign", "in"], "login"),
    (&["sign", "out"], "logout"),
    (&["sign", "up"], "register"),
    (&["sort", "out"], "resolve"),
    (&["speed", "up"], "accelerate"),
    (&["spin", "up"], "start"),
    (&["step", "by", "step"], "sequential"),
    (&["switch", "off"], "disable"),
    (&["switch", "on"], "enable"),
    (&["take", "away"], "remove"),
    (&["take", "down"], "stop"),
    (&["take", "out"], "remove"),
    (&["tear", "down"], "destroy"),
    (&["throw", "away"], "delete"),
    (&["thumbs", "up"], "reaction"),
    (&["time", "line"], "timeline"),
    (&["time", "zone"], "timezone"),
    (&["to", "do"], "todo"),
    (&["turn", "off"], "disable"),
    (&["turn", "on"], "enable"),
    (&["up", "to", "date"], "latest"),
    (&["virtual", "machine"], "vm"),
    (&["wake", "up"], "wake"),
    (&["web", "page"], "webpage"),
    (&["web", "site"], "website"),
    (&["wipe", "out"], "delete"),
    (&["work", "out"], "calculate"),
    (&["write", "down"], "write"),
];

/// The words of a query with phrases replaced.
pub(crate) fn plain(words: Vec<String>) -> Vec<String> {
    let mut plain = Vec::with_capacity(words.len());
    let mut rest = words.as_slice();
    while let Some((first, after)) = rest.split_first() {
        let said = |(phrase, _): &&(&[&str], &str)| {
            rest.len() >= phrase.len() && phrase.iter().zip(rest).all(|(said, word)| said == word)
        };
        match PHRASES.iter().find(said) {
            Some((phrase, meant)) => {
                plain.push((*meant).to_owned());
                rest = &rest[phrase.len()..];
            }
            None => {
                plain.push(first.clone());
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idioms_are_replaced_by_plain_words() {
        let plain = |text: &str| plain(crate::words::split(text)).join(" ");
        assert_eq!(plain("get rid of old logs"), "delete old logs");
        assert_eq!(plain("get rid"), "get rid");
        assert_eq!(plain("how many rows, right now"), "count rows current");
        assert_eq!(plain(""), "");
    }
}
