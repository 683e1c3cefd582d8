//! Keys to actions: how chords are written, the defaults of the action table, and what the user changed.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::action::{ACTIONS, Action, ActionInfo, Context};

/// A key with its modifiers, as `ctrl+p`, `shift+enter`, `G`, `f2`, `space`, `?`.
///
/// Letters say their case themselves: `G` is what Shift and g give, so `shift+` is only written before other keys.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Chord {
    code: KeyCode,
    modifiers: KeyModifiers,
}

const MODIFIERS: [(&str, KeyModifiers); 4] = [
    ("ctrl", KeyModifiers::CONTROL),
    ("alt", KeyModifiers::ALT),
    ("shift", KeyModifiers::SHIFT),
    ("super", KeyModifiers::SUPER),
];

const NAMED_KEYS: [(&str, KeyCode); 15] = [
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("space", KeyCode::Char(' ')),
    ("backspace", KeyCode::Backspace),
    ("delete", KeyCode::Delete),
    ("insert", KeyCode::Insert),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("pageup", KeyCode::PageUp),
    ("pagedown", KeyCode::PageDown),
];

impl Chord {
    fn new(code: KeyCode, modifiers: KeyModifiers) -> Chord {
        let mut modifiers =
            modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SHIFT | KeyModifiers::SUPER);
        let code = match code {
            KeyCode::BackTab => {
                modifiers |= KeyModifiers::SHIFT;
                KeyCode::Tab
            }
            KeyCode::Char(c) => {
                // With Ctrl, terminals disagree on the letter's case; without it, the case says that Shift is down.
                let c = if modifiers.contains(KeyModifiers::CONTROL) {
                    c.to_ascii_lowercase()
                } else if modifiers.contains(KeyModifiers::SHIFT) {
                    c.to_uppercase().next().unwrap_or(c)
                } else {
                    c
                };
                if c != ' ' {
                    modifiers -= KeyModifiers::SHIFT;
                }
                KeyCode::Char(c)
            }
            other => other,
        };
        Chord { code, modifiers }
    }

    pub fn of(key: &KeyEvent) -> Chord {
        Chord::new(key.code, key.modifiers)
    }

    pub fn is_backspace(&self) -> bool {
        self.code == KeyCode::Backspace && self.modifiers.is_empty()
    }

    /// The character that this key types, if it types one.
    pub fn typed(&self) -> Option<char> {
        match self.code {
            KeyCode::Char(c)
                if !self.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SUPER) =>
            {
                Some(c)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Chord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, modifier) in MODIFIERS {
            if self.modifiers.contains(modifier) {
                write!(f, "{name}+")?;
            }
        }
        match (NAMED_KEYS.iter().find(|(_, code)| *code == self.code), self.code) {
            (Some((name, _)), _) => f.write_str(name),
            (None, KeyCode::Char(c)) => write!(f, "{c}"),
            (None, KeyCode::F(n)) => write!(f, "f{n}"),
            (None, other) => write!(f, "{other}"),
        }
    }
}

impl FromStr for Chord {
    type Err = String;

    fn from_str(text: &str) -> Result<Chord, String> {
        let wrong = || format!("'{text}' is no key: write it like ctrl+p, shift+enter, f2, G or ?");
        let mut rest = text;
        let mut modifiers = KeyModifiers::NONE;
        // The last '+' may be the key itself.
        while let Some((word, after)) = rest.split_once('+')
            && !after.is_empty()
        {
            let (_, modifier) = MODIFIERS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).ok_or_else(wrong)?;
            modifiers |= *modifier;
            rest = after;
        }
        let mut chars = rest.chars();
        let code = match (chars.next(), chars.next()) {
            (Some(c), None) if !c.is_control() => KeyCode::Char(c),
            _ => {
                let named = NAMED_KEYS.iter().find(|(name, _)| name.eq_ignore_ascii_case(rest)).map(|(_, code)| *code);
                let function = || {
                    let n = rest.strip_prefix(['f', 'F'])?.parse().ok()?;
                    (1..=24).contains(&n).then_some(KeyCode::F(n))
                };
                named.or_else(function).ok_or_else(wrong)?
            }
        };
        Ok(Chord::new(code, modifiers))
    }
}

/// What the configuration says of one action's keys.
pub struct KeyChange<'a> {
    pub action: &'a str,
    /// Replace the defaults; none: the action has no key.
    pub keys: &'a [String],
}

pub struct Keymap {
    bindings: HashMap<(Context, Chord), Action>,
    /// In the order of [`ACTIONS`].
    chords: Vec<Vec<Chord>>,
}

impl Default for Keymap {
    fn default() -> Keymap {
        Keymap::new([]).0
    }
}

impl Keymap {
    /// The defaults with the user's changes, and words on what of these could not be used.
    pub fn new<'a>(changes: impl IntoIterator<Item = KeyChange<'a>>) -> (Keymap, Vec<String>) {
        let mut warnings = vec![];
        let mut chords: Vec<Vec<Chord>> =
            ACTIONS.iter().map(|info| info.keys.iter().filter_map(|k| k.parse().ok()).collect()).collect();
        let mut changed = vec![false; ACTIONS.len()];
        for change in changes {
            let Some(index) = ACTIONS.iter().position(|info| info.name == change.action) else {
                warnings.push(unknown_action(change.action));
                continue;
            };
            changed[index] = true;
            chords[index] = change
                .keys
                .iter()
                .filter_map(|key| key.parse().map_err(|e| warnings.push(format!("keys.{}: {e}", change.action))).ok())
                .collect();
        }
        let mut bindings = HashMap::new();
        // What the user bound wins over a default of the same chord.
        for wanted in [false, true] {
            for (index, info) in ACTIONS.iter().enumerate().filter(|(index, _)| changed[*index] == wanted) {
                for chord in &chords[index] {
                    if let Some(before) = bindings.insert((info.context, *chord), info.action)
                        && wanted
                        && before != info.action
                        && let Some(other) = before.info()
                    {
                        warnings.push(format!(
                            "keys.{}: {chord} was a key of {}, which it replaces",
                            info.name, other.name
                        ));
                    }
                }
            }
        }
        for (index, info) in ACTIONS.iter().enumerate() {
            chords[index].retain(|chord| bindings.get(&(info.context, *chord)) == Some(&info.action));
        }
        (Keymap { bindings, chords }, warnings)
    }

    /// What a key means in the first of `contexts` that knows it.
    pub fn action(&self, contexts: &[Context], chord: Chord) -> Option<Action> {
        contexts.iter().find_map(|context| self.bindings.get(&(*context, chord)).copied())
    }

    pub fn chords(&self, action: Action) -> &[Chord] {
        ACTIONS.iter().position(|info| info.action == action).map_or(&[], |index| &self.chords[index])
    }

    /// The first key of an action, as it is shown; empty where it has none.
    pub fn shown(&self, action: Action) -> String {
        self.chords(action).first().map(Chord::to_string).unwrap_or_default()
    }

    /// Every action with its keys, for the help and the palette.
    pub fn entries(&self) -> impl Iterator<Item = (&'static ActionInfo, &[Chord])> {
        ACTIONS.iter().zip(self.chords.iter().map(Vec::as_slice))
    }
}

fn unknown_action(name: &str) -> String {
    let nearest = ACTIONS
        .iter()
        .map(|info| (strsim::damerau_levenshtein(name, info.name), info.name))
        .min()
        .filter(|(distance, _)| *distance <= 3)
        .map(|(_, name)| format!(" (did you mean {name}?)"))
        .unwrap_or_default();
    let name: String = name.chars().filter(|c| !c.is_control()).take(40).collect();
    format!("keys: there is no action '{name}'{nearest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chord(text: &str) -> Chord {
        text.parse().unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn every_default_key_is_written_right_and_means_one_thing() {
        let mut seen = HashMap::new();
        for info in ACTIONS {
            for key in info.keys {
                let chord = chord(key);
                assert_eq!(chord.to_string(), *key, "of {}", info.name);
                assert_eq!(seen.insert((info.context, chord), info.name), None, "{key} of {}", info.name);
            }
        }
    }

    #[test]
    fn the_keys_that_terminals_send() {
        let key = |code, modifiers| Chord::of(&KeyEvent::new(code, modifiers));
        assert_eq!(key(KeyCode::Char('P'), KeyModifiers::CONTROL), chord("ctrl+p"));
        assert_eq!(key(KeyCode::Char('G'), KeyModifiers::SHIFT), chord("G"));
        assert_eq!(key(KeyCode::Char('g'), KeyModifiers::SHIFT), chord("G"));
        assert_eq!(key(KeyCode::BackTab, KeyModifiers::SHIFT), chord("shift+tab"));
        assert_eq!(key(KeyCode::BackTab, KeyModifiers::NONE), chord("shift+tab"));
        assert_eq!(key(KeyCode::Char('+'), KeyModifiers::CONTROL), chord("ctrl++"));
        assert_eq!(key(KeyCode::Char('?'), KeyModifiers::SHIFT), chord("?"));
        assert_eq!(chord("space").typed(), Some(' '));
        assert_eq!(chord("ctrl+a").typed(), None);
    }

    #[test]
    fn wrong_chords_say_how_it_is_written() {
        for text in ["", "ctrl+", "hyper+a", "f99", "ab", "\u{1b}"] {
            assert!(text.parse::<Chord>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_change_replaces_the_defaults_and_wins() {
        let keys = ["ctrl+o".to_string()];
        let (keymap, warnings) = Keymap::new([KeyChange { action: "palette", keys: &keys }]);
        assert_eq!(keymap.action(&[Context::Anywhere], chord("ctrl+o")), Some(Action::Palette));
        assert_eq!(keymap.action(&[Context::Anywhere], chord("ctrl+p")), None);
        assert_eq!(keymap.shown(Action::Models), "");
        assert_eq!(warnings, ["keys.palette: ctrl+o was a key of models, which it replaces"]);
    }

    #[test]
    fn a_slip_is_named_with_its_neighbour() {
        let (_, warnings) = Keymap::new([KeyChange { action: "palete", keys: &[] }]);
        assert_eq!(warnings, ["keys: there is no action 'palete' (did you mean palette?)"]);
        let keys = ["nokey".to_string()];
        let (_, warnings) = Keymap::new([KeyChange { action: "help", keys: &keys }]);
        assert_eq!(warnings, ["keys.help: 'nokey' is no key: write it like ctrl+p, shift+enter, f2, G or ?"]);
    }
}
