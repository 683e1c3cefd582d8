//! How answers are made, as a form: every setting is a line of text until all of it is applied.

mod form;
mod table;

use super::list::Cursor;
use super::{DialogInput, DialogOutcome};
use crate::engine::sampler::SamplerError;
use crate::ui::action::Action;
use crate::ui::state::ChatSettings;
pub use form::Form;
pub use table::{SETTINGS, Setting, default_settings};

#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// As they were: what the form does not show stays so.
    base: ChatSettings,
    defaults: ChatSettings,
    /// Of [`SETTINGS`].
    texts: Vec<String>,
    /// The chosen one was typed in since it was chosen: the next character goes behind, not in place of the value.
    typing: bool,
    pub cursor: Cursor,
}

impl Settings {
    /// `defaults` are marked and come back with Delete: those of the configuration, or [`default_settings`].
    pub fn new(settings: &ChatSettings, defaults: &ChatSettings) -> Settings {
        Settings {
            base: settings.clone(),
            defaults: defaults.clone(),
            texts: SETTINGS.iter().map(|setting| (setting.get)(settings)).collect(),
            typing: false,
            cursor: Cursor::default(),
        }
    }

    /// Each setting with its text and whether that is the default.
    pub fn rows(&self) -> impl Iterator<Item = (&'static Setting, &str, bool)> {
        let rows = SETTINGS.iter().zip(&self.texts);
        rows.map(|(setting, text)| (setting, text.as_str(), (setting.get)(&self.defaults) == *text))
    }

    pub fn chosen(&self) -> usize {
        self.cursor.at(SETTINGS.len()).unwrap_or(0)
    }

    /// Whether the chosen value is being typed.
    pub fn is_typing(&self) -> bool {
        self.typing
    }

    /// The settings that the form holds; else the line that is wrong, and why.
    ///
    /// # Errors
    /// Place in [`SETTINGS`] and words.
    pub fn values(&self) -> Result<ChatSettings, (usize, String)> {
        let mut values = self.base.clone();
        for (i, (setting, text)) in SETTINGS.iter().zip(&self.texts).enumerate() {
            if !(setting.set)(&mut values, text.trim()) {
                return Err((i, setting.form.wanted()));
            }
        }
        if values.n_ctx == Some(0) {
            let at = SETTINGS.iter().position(|s| s.name == "n_ctx").unwrap_or(0);
            return Err((at, "must be 1 or more".to_owned()));
        }
        match values.sampling.validate() {
            Ok(()) => Ok(values),
            Err(error) => {
                let at = match &error {
                    SamplerError::OutOfRange { name, .. } => SETTINGS.iter().position(|s| s.name == *name),
                    SamplerError::NoFiniteLogit { .. } => None,
                };
                let words = match &error {
                    SamplerError::OutOfRange { range, .. } => format!("must be {range}"),
                    SamplerError::NoFiniteLogit { .. } => error.to_string(),
                };
                Err((at.unwrap_or(0), words))
            }
        }
    }

    pub(super) fn input(&mut self, input: DialogInput<'_>) -> DialogOutcome {
        if self.cursor.input(&input, SETTINGS.len()) {
            self.typing = false;
            return DialogOutcome::Stay;
        }
        match input {
            DialogInput::Action(Action::Choose) => match self.values() {
                Ok(values) => return DialogOutcome::SetSettings(Box::new(values)),
                Err((at, _)) => self.choose(at),
            },
            DialogInput::Action(Action::DeleteItem) => {
                if let Some(setting) = SETTINGS.get(self.chosen()) {
                    self.write((setting.get)(&self.defaults));
                }
            }
            DialogInput::Typed(' ') => self.step(1),
            DialogInput::Typed(c) => self.append(c),
            DialogInput::Paste(text) => text.trim().chars().take(20).for_each(|c| self.append(c)),
            DialogInput::Edit(Action::Left) => self.step(-1),
            DialogInput::Edit(Action::Right) => self.step(1),
            DialogInput::Edit(Action::DeleteBack) => self.shorten(|text| _ = text.pop()),
            DialogInput::Edit(Action::DeleteWordBack | Action::KillToStart) => self.shorten(String::clear),
            DialogInput::Click(item) => self.choose(item),
            DialogInput::Action(_) | DialogInput::Edit(_) | DialogInput::Wheel(_) => {}
        }
        DialogOutcome::Stay
    }

    fn choose(&mut self, at: usize) {
        self.cursor.set(at.min(SETTINGS.len() - 1));
        self.typing = false;
    }

    fn write(&mut self, text: String) {
        let at = self.chosen();
        if let Some(place) = self.texts.get_mut(at) {
            *place = text;
        }
        self.typing = false;
    }

    fn append(&mut self, c: char) {
        let at = self.chosen();
        if matches!(SETTINGS[at].form, Form::Choice(_)) || !(c.is_ascii_digit() || ".-+".contains(c)) {
            return;
        }
        if let Some(text) = self.texts.get_mut(at) {
            if !self.typing {
                text.clear();
            }
            if text.len() < 20 {
                text.push(c);
            }
            self.typing = true;
        }
    }

    fn shorten(&mut self, cut: fn(&mut String)) {
        let at = self.chosen();
        if matches!(SETTINGS[at].form, Form::Choice(_)) {
            return;
        }
        if let Some(text) = self.texts.get_mut(at) {
            // A word goes as a whole.
            if text.starts_with(|c: char| c.is_ascii_alphabetic()) {
                text.clear()
            } else {
                cut(text)
            }
            self.typing = true;
        }
    }

    fn step(&mut self, direction: i64) {
        let setting = &SETTINGS[self.chosen()];
        let default = (setting.get)(&self.defaults);
        let text = self.texts.get(self.chosen()).map(String::as_str).unwrap_or_default();
        let next = setting.form.stepped(text, direction).or_else(|| setting.form.stepped(&default, 0));
        self.write(next.unwrap_or(default));
    }
}
