//! Characters that are invisible to people and readable by models, and words of mixed scripts.

/// The most stray invisible characters in a text: a few get in by copying, more can encode a message.
const STRAY: usize = 2;
/// The most tag characters after a black flag, as in the flag of England.
const FLAG_TAGS: usize = 7;

/// The first character in `text` that hides something. Characters that emoji and scripts need are allowed: selectors and
/// joiners where they have an effect, direction marks, spaces of any width.
pub(super) fn hidden(text: &str) -> Option<char> {
    let all: Vec<char> = text.chars().collect();
    let mut stray = 0;
    for (at, &c) in all.iter().enumerate() {
        match kind(c) {
            CharKind::Shown => {}
            CharKind::Obeyed => return Some(c),
            CharKind::Tag if is_flag(&all[..at]) => {}
            CharKind::Selector if selects(&all[..at], c) => {}
            // One is enough: tags and free selectors have no use outside emoji, and can spell whole sentences.
            CharKind::Tag | CharKind::Selector => return Some(c),
            CharKind::Joiner if joins(&all, at) => {}
            CharKind::Joiner | CharKind::Blank => stray += 1,
        }
        if stray > STRAY {
            return Some(c);
        }
    }
    None
}

/// A text without invisible characters.
pub(super) fn without_hidden(text: &str) -> String {
    let is_shown = |c: &char| kind(*c) == CharKind::Shown || *c == '\u{200e}' || *c == '\u{200f}';
    text.chars().filter(is_shown).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CharKind {
    Shown,
    Blank,
    /// Joins its neighbours, or keeps them apart.
    Joiner,
    /// Selects the form of the character before it.
    Selector,
    /// An invisible letter; after a black flag it names a region.
    Tag,
    /// Reorders the text after it, or controls a terminal.
    Obeyed,
}

fn kind(c: char) -> CharKind {
    match c {
        '\n' | '\t' | '\r' => CharKind::Shown,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => CharKind::Obeyed,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => CharKind::Obeyed,
        '\u{e0000}'..='\u{e007f}' => CharKind::Tag,
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' | '\u{180b}'..='\u{180d}' => {
            CharKind::Selector
        }
        '\u{200c}' | '\u{200d}' => CharKind::Joiner,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}' => {
            CharKind::Blank
        }
        '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{2800}' => {
            CharKind::Blank
        }
        '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' => CharKind::Blank,
        '\u{1d173}'..='\u{1d17a}' | '\u{e0080}'..='\u{e0fff}' | '\u{f0000}'..='\u{10ffff}' => {
            CharKind::Blank
        }
        _ => CharKind::Shown,
    }
}

/// Whether the characters before a tag are a black flag and few tags.
fn is_flag(before: &[char]) -> bool {
    let tags = before
        .iter()
        .rev()
        .take_while(|c| kind(**c) == CharKind::Tag);
    let tags = tags.count();
    let base = before.len().checked_sub(tags + 1).map(|at| before[at]);
    tags < FLAG_TAGS && base == Some('\u{1f3f4}')
}

/// Whether a selector has an effect: after an emoji, a keycap, an ideograph, or a letter of a script that uses selectors.
fn selects(before: &[char], selector: char) -> bool {
    let Some(&base) = before.last() else {
        return false;
    };
    match selector {
        '\u{fe0e}' | '\u{fe0f}' => is_pictorial(base) || matches!(base, '0'..='9' | '#' | '*'),
        '\u{e0100}'..='\u{e01ef}' | '\u{fe00}'..='\u{fe0d}' => {
            matches!(base, '\u{3400}'..='\u{9fff}' | '\u{20000}'..='\u{3ffff}' | '\u{2200}'..='\u{22ff}')
        }
        _ => matches!(base, '\u{1800}'..='\u{18af}'),
    }
}

/// Whether a joiner is inside an emoji or between letters of a script that needs it.
fn joins(all: &[char], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| all[before]);
    let (Some(before), Some(&after)) = (before, all.get(at + 1)) else {
        return false;
    };
    let is_modified = |c: char| is_pictorial(c) || c == '\u{fe0f}';
    let needs_joiners = |c: char| matches!(c, '\u{600}'..='\u{8ff}' | '\u{900}'..='\u{109f}' | '\u{1780}'..='\u{18af}');
    (is_modified(before) && is_pictorial(after)) || (needs_joiners(before) && needs_joiners(after))
}

fn is_pictorial(c: char) -> bool {
    matches!(c, '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{2bff}' | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

/// The first word that mixes Latin letters with Cyrillic look-alikes.
pub(super) fn mixed(text: &str) -> Option<&str> {
    let words = text.split(|c: char| !c.is_alphabetic());
    let is_latin = |c: char| c.is_ascii_alphabetic() || matches!(c, '\u{c0}'..='\u{24f}');
    let is_cyrillic = |c: char| matches!(c, '\u{400}'..='\u{52f}');
    words.filter(|word| !word.is_ascii()).find(|word| {
        let (mut latin, mut cyrillic) = (false, false);
        for c in word.chars() {
            latin |= is_latin(c);
            cyrillic |= is_cyrillic(c);
        }
        latin
            && cyrillic
            && word
                .chars()
                // A clearly Cyrillic letter gives the word away: it does not pass for a Latin one.
                .all(|c| !is_cyrillic(c) || latin_look(c).is_some())
    })
}

/// The text with look-alikes of Latin letters replaced; `None` if there are none.
pub(super) fn folded(text: &str) -> Option<String> {
    if text.is_ascii() {
        return None;
    }
    let fold = |c: char| match c.is_ascii() {
        true => c,
        false => latin_look(c).unwrap_or(c),
    };
    let folded: String = text.chars().map(fold).collect();
    (folded != text).then_some(folded)
}

/// The Latin letter that a letter resembles.
fn latin_look(c: char) -> Option<char> {
    let small = c.to_lowercase().next()?;
    let mut looks = unicode_security::skeleton(small.encode_utf8(&mut [0; 4]))
        .collect::<Vec<_>>()
        .into_iter();
    match (looks.next(), looks.next()) {
        (Some(one), None) if one.is_ascii_alphabetic() && small.is_alphabetic() => Some(one),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emoji_and_foreign_scripts_are_not_flagged_as_hidden_text() {
        let texts = [
            "plain\n\ttext\r\n",
            "\u{2764}\u{fe0f} \u{26a0}\u{fe0f} \u{1f3d6}\u{fe0f} \u{2699}\u{fe0e} 1\u{fe0f}\u{20e3} \u{a9}\u{fe0f}",
            "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} \u{1f3f3}\u{fe0f}\u{200d}\u{1f308} \u{1f44d}\u{1f3fd}",
            "\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
            "\u{930}\u{93e}\u{937}\u{94d}\u{200d}\u{91f}\u{94d}\u{930}",
            "\u{645}\u{6cc}\u{200c}\u{62e}\u{648}\u{627}\u{647}\u{645}",
            "\u{ab}\u{a0}N\u{ee}mes\u{202f}\u{bb}",
            "\u{feff}one mark",
            "\u{845b}\u{e0100}",
            "\u{5d0}\u{200e}(a)\u{200f}\u{5d1}",
        ];
        for text in texts {
            assert_eq!(hidden(text), None, "{text:?}");
        }
    }

    #[test]
    fn invisible_character_sequences_are_flagged() {
        let texts = [
            "a\u{e0041}\u{e0042}",
            "\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e0067}\u{e0067}\u{e0067}",
            "a\u{200b}\u{200c}\u{200b}b",
            "\u{1f600}\u{fe01}\u{fe02}",
            "\u{1f600}\u{fe0f}\u{e0101}",
            "a\u{fe0f}",
            "\u{202e}x",
            "x\u{2066}y\u{2069}",
            "\u{1b}[8m",
            "s\u{2063}e\u{2063}n\u{2063}d",
        ];
        for text in texts {
            assert!(hidden(text).is_some(), "{text:?}");
        }
    }

    #[test]
    fn lookalike_letters_are_found_and_folded() {
        assert_eq!(mixed("Pay p\u{430}y now"), Some("p\u{430}y"));
        assert_eq!(
            mixed("\u{41f}\u{43e}\u{433}\u{43e}\u{434}\u{430} API na\u{ef}ve \u{3b1}-helix"),
            None
        );
        assert_eq!(
            folded("\u{ff29}gnor\u{435} \u{ff41}ll").as_deref(),
            Some("ignore all")
        );
        assert_eq!(folded("plain"), None);
    }
}
