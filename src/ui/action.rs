//! Everything a user can ask for, as one table: names for the configuration and the palette, words for the help, keys.

use super::editor::EditAction;

/// Where a key means something. A focused place looks in its own context first, then in [`Context::Panels`] (unless
/// text is typed there), then in [`Context::Anywhere`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Context {
    Anywhere,
    /// Every place where letters are not typed as text.
    Panels,
    Input,
    Chat,
    Devices,
    Layers,
    /// Dialogs: lists to choose from, forms, pages to scroll.
    Dialog,
}

impl Context {
    pub const ALL: [Context; 7] = [
        Context::Anywhere,
        Context::Panels,
        Context::Input,
        Context::Chat,
        Context::Devices,
        Context::Layers,
        Context::Dialog,
    ];

    pub const fn title(self) -> &'static str {
        match self {
            Context::Anywhere => "Anywhere",
            Context::Panels => "Outside of the input",
            Context::Input => "Input",
            Context::Chat => "Chat",
            Context::Devices => "Devices",
            Context::Layers => "Layers",
            Context::Dialog => "Lists and forms",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    Help,
    Palette,
    Doctor,
    Quit,
    Interrupt,
    Suspend,
    ReleaseMouse,
    Redraw,
    NextTheme,
    NextPanel,
    PreviousPanel,
    FocusInput,
    FocusChat,
    FocusDevices,
    FocusLayers,
    Models,
    Sessions,
    NewSession,
    RenameSession,
    ExportMarkdown,
    ExportJson,
    Settings,
    SystemPrompt,
    Send,
    NewLine,
    ExternalEditor,
    Stop,
    Regenerate,
    Continue,
    EditMessage,
    PreviousBranch,
    NextBranch,
    CopyMessage,
    CopyCode,
    FoldThinking,
    PreviousMessage,
    NextMessage,
    ScrollUp,
    ScrollDown,
    PageUp,
    PageDown,
    Top,
    Bottom,
    DeviceUp,
    DeviceDown,
    DeviceDetails,
    LayerLeft,
    LayerRight,
    LayerRowUp,
    LayerRowDown,
    LayerNext,
    LayerPrevious,
    LayerPick,
    EdgeLeft,
    EdgeRight,
    EdgeLeftFar,
    EdgeRightFar,
    ExtendLeft,
    ExtendRight,
    SelectBlock,
    MoveSelection,
    LayerUndo,
    LayerRedo,
    LayerAuto,
    Apply,
    ApplyNow,
    CancelChange,
    ItemUp,
    ItemDown,
    Choose,
    DeleteItem,
    RenameItem,
    Close,
    DeleteBack,
    DeleteForward,
    DeleteWordBack,
    DeleteWordForward,
    KillToEnd,
    KillToStart,
    Yank,
    Left,
    Right,
    Up,
    Down,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
    TextStart,
    TextEnd,
    Undo,
    Redo,
}

/// One line of the table.
pub struct ActionInfo {
    pub action: Action,
    /// Names it in the configuration and the palette.
    pub name: &'static str,
    pub words: &'static str,
    /// Where its keys hold.
    pub context: Context,
    /// Defaults; see [`super::keymap::Chord`] for how they are written.
    pub keys: &'static [&'static str],
    /// Whether the palette lists it: what makes sense without a place to point at.
    pub in_palette: bool,
}

const fn global(
    action: Action,
    name: &'static str,
    words: &'static str,
    context: Context,
    keys: &'static [&'static str],
) -> ActionInfo {
    ActionInfo { action, name, words, context, keys, in_palette: true }
}

const fn local(
    action: Action,
    name: &'static str,
    words: &'static str,
    context: Context,
    keys: &'static [&'static str],
) -> ActionInfo {
    ActionInfo { action, name, words, context, keys, in_palette: false }
}

/// Every action, in the order the help shows them.
pub const ACTIONS: &[ActionInfo] = &[
    global(Action::Help, "help", "Show the keys", Context::Panels, &["?"]),
    global(Action::Palette, "palette", "Search every action", Context::Anywhere, &["ctrl+p"]),
    global(Action::Models, "models", "Open another model", Context::Anywhere, &["ctrl+o"]),
    global(Action::Sessions, "sessions", "Open, search, rename or delete a session", Context::Anywhere, &["ctrl+r"]),
    global(Action::NewSession, "new-session", "Start a new session", Context::Anywhere, &["ctrl+n"]),
    global(Action::RenameSession, "rename-session", "Give this session a title", Context::Anywhere, &[]),
    global(Action::ExportMarkdown, "export-markdown", "Save this session as Markdown", Context::Anywhere, &[]),
    global(Action::ExportJson, "export-json", "Save this session as JSON", Context::Anywhere, &[]),
    global(Action::Settings, "settings", "Sampler settings", Context::Anywhere, &["ctrl+s"]),
    global(Action::SystemPrompt, "system-prompt", "Write the system prompt", Context::Anywhere, &[]),
    global(Action::Doctor, "doctor", "What was looked for and what was found", Context::Anywhere, &["f9"]),
    global(Action::NextTheme, "next-theme", "Change the theme", Context::Anywhere, &["ctrl+t"]),
    global(
        Action::ReleaseMouse,
        "release-mouse",
        "Give the mouse to the terminal, or take it back",
        Context::Anywhere,
        &["f2"],
    ),
    global(Action::Redraw, "redraw", "Draw everything anew", Context::Anywhere, &["ctrl+l"]),
    global(Action::Suspend, "suspend", "Suspend (fg brings it back)", Context::Anywhere, &["ctrl+z"]),
    local(
        Action::Interrupt,
        "interrupt",
        "Stop the answer; else clear the input; twice: quit",
        Context::Anywhere,
        &["ctrl+c"],
    ),
    global(Action::Quit, "quit", "Quit", Context::Anywhere, &["ctrl+q"]),
    local(Action::NextPanel, "next-panel", "Next panel", Context::Anywhere, &["tab"]),
    local(Action::PreviousPanel, "previous-panel", "Previous panel", Context::Anywhere, &["shift+tab"]),
    global(Action::FocusInput, "focus-input", "Go to the input", Context::Anywhere, &["alt+i"]),
    global(Action::FocusChat, "focus-chat", "Go to the chat", Context::Anywhere, &["alt+c"]),
    global(Action::FocusDevices, "focus-devices", "Go to the devices", Context::Anywhere, &["alt+d"]),
    global(Action::FocusLayers, "focus-layers", "Go to the layers", Context::Anywhere, &["alt+l"]),
    local(Action::Send, "send", "Send", Context::Input, &["enter"]),
    local(Action::NewLine, "new-line", "New line", Context::Input, &["shift+enter", "alt+enter", "ctrl+j"]),
    global(Action::ExternalEditor, "external-editor", "Write in $EDITOR", Context::Anywhere, &["ctrl+g"]),
    global(Action::Stop, "stop", "Stop the answer; else back to the input", Context::Anywhere, &["esc"]),
    local(Action::Up, "up", "Line up; at the top an earlier prompt", Context::Input, &["up"]),
    local(Action::Down, "down", "Line down; at the bottom a later prompt", Context::Input, &["down"]),
    local(Action::Left, "left", "Left", Context::Input, &["left", "ctrl+b"]),
    local(Action::Right, "right", "Right", Context::Input, &["right", "ctrl+f"]),
    local(Action::WordLeft, "word-left", "Word left", Context::Input, &["ctrl+left", "alt+left", "alt+b"]),
    local(Action::WordRight, "word-right", "Word right", Context::Input, &["ctrl+right", "alt+right", "alt+f"]),
    local(Action::LineStart, "line-start", "Start of the line", Context::Input, &["home", "ctrl+a"]),
    local(Action::LineEnd, "line-end", "End of the line", Context::Input, &["end", "ctrl+e"]),
    local(Action::TextStart, "text-start", "Start of the text", Context::Input, &["ctrl+home"]),
    local(Action::TextEnd, "text-end", "End of the text", Context::Input, &["ctrl+end"]),
    local(Action::DeleteBack, "delete-back", "Delete backwards", Context::Input, &["backspace", "ctrl+h"]),
    local(Action::DeleteForward, "delete-forward", "Delete forwards", Context::Input, &["delete", "ctrl+d"]),
    local(
        Action::DeleteWordBack,
        "delete-word-back",
        "Delete a word backwards",
        Context::Input,
        &["ctrl+w", "alt+backspace", "ctrl+backspace"],
    ),
    local(Action::DeleteWordForward, "delete-word-forward", "Delete a word forwards", Context::Input, &["ctrl+delete"]),
    local(Action::KillToEnd, "kill-to-end", "Cut to the end of the line", Context::Input, &["ctrl+k"]),
    local(Action::KillToStart, "kill-to-start", "Cut to the start of the line", Context::Input, &["ctrl+u"]),
    local(Action::Yank, "yank", "Insert what was cut", Context::Input, &["ctrl+y"]),
    local(Action::Undo, "undo", "Undo in the input", Context::Input, &["ctrl+_", "ctrl+7", "ctrl+/"]),
    local(Action::Redo, "redo", "Redo in the input", Context::Input, &["alt+_", "alt+/"]),
    global(Action::Regenerate, "regenerate", "Answer anew; the old answer stays as a branch", Context::Chat, &["r"]),
    global(Action::Continue, "continue", "Go on with the last answer", Context::Chat, &["g"]),
    global(
        Action::EditMessage,
        "edit-message",
        "Edit the chosen or last message in a new branch",
        Context::Chat,
        &["e"],
    ),
    global(Action::PreviousBranch, "previous-branch", "Show the branch before", Context::Chat, &["left", "h", "["]),
    global(Action::NextBranch, "next-branch", "Show the branch after", Context::Chat, &["right", "l", "]"]),
    global(Action::CopyMessage, "copy-message", "Copy the chosen or last message", Context::Chat, &["y"]),
    global(Action::CopyCode, "copy-code", "Copy a code block of it; again: the next one", Context::Chat, &["c"]),
    global(Action::FoldThinking, "fold-thinking", "Fold or unfold thinking", Context::Chat, &["t", "space"]),
    local(Action::PreviousMessage, "previous-message", "Choose the message before", Context::Chat, &["up", "k"]),
    local(Action::NextMessage, "next-message", "Choose the message after", Context::Chat, &["down", "j"]),
    global(Action::PageUp, "page-up", "Scroll a page up", Context::Anywhere, &["pageup"]),
    global(Action::PageDown, "page-down", "Scroll a page down", Context::Anywhere, &["pagedown"]),
    local(Action::ScrollUp, "scroll-up", "Scroll up", Context::Anywhere, &["shift+up", "alt+up", "alt+k"]),
    local(Action::ScrollDown, "scroll-down", "Scroll down", Context::Anywhere, &["shift+down", "alt+down", "alt+j"]),
    local(Action::Top, "top", "To the first message", Context::Panels, &["home"]),
    local(Action::Bottom, "bottom", "To the newest text, and follow it", Context::Panels, &["end", "G"]),
    local(Action::DeviceUp, "device-up", "Device above", Context::Devices, &["up", "k"]),
    local(Action::DeviceDown, "device-down", "Device below", Context::Devices, &["down", "j"]),
    local(Action::DeviceDetails, "device-details", "Details of the device", Context::Devices, &["enter"]),
    local(Action::LayerNext, "layer-next", "Next block or edge; past the last: next panel", Context::Layers, &["tab"]),
    local(Action::LayerPrevious, "layer-previous", "Previous block or edge", Context::Layers, &["shift+tab"]),
    local(Action::LayerLeft, "layer-left", "Cursor left; an edge that is picked up moves", Context::Layers, &["left"]),
    local(
        Action::LayerRight,
        "layer-right",
        "Cursor right; an edge that is picked up moves",
        Context::Layers,
        &["right"],
    ),
    local(Action::LayerRowUp, "layer-row-up", "Row above", Context::Layers, &["up", "k"]),
    local(Action::LayerRowDown, "layer-row-down", "Row below", Context::Layers, &["down", "j"]),
    local(
        Action::LayerPick,
        "layer-pick",
        "Pick up the edge or block here, or put it down",
        Context::Layers,
        &["space"],
    ),
    local(Action::EdgeLeft, "edge-left", "Move the edge left by one layer", Context::Layers, &["h"]),
    local(Action::EdgeRight, "edge-right", "Move the edge right by one layer", Context::Layers, &["l"]),
    local(Action::EdgeLeftFar, "edge-left-far", "Move the edge left by five", Context::Layers, &["H"]),
    local(Action::EdgeRightFar, "edge-right-far", "Move the edge right by five", Context::Layers, &["L"]),
    local(
        Action::ExtendLeft,
        "extend-left",
        "Select to the left; an edge that is picked up moves by five",
        Context::Layers,
        &["shift+left"],
    ),
    local(
        Action::ExtendRight,
        "extend-right",
        "Select to the right; an edge that is picked up moves by five",
        Context::Layers,
        &["shift+right"],
    ),
    local(Action::SelectBlock, "select-block", "Select the block", Context::Layers, &["v"]),
    local(
        Action::MoveSelection,
        "move-selection",
        "Then a device's letter: move the selection or block there",
        Context::Layers,
        &["m"],
    ),
    local(Action::LayerUndo, "layer-undo", "Undo", Context::Layers, &["u"]),
    local(Action::LayerRedo, "layer-redo", "Redo", Context::Layers, &["U"]),
    global(Action::LayerAuto, "auto", "Propose the automatic placement", Context::Layers, &["a"]),
    global(Action::Apply, "apply", "Apply before the next prefill", Context::Layers, &["enter"]),
    global(Action::ApplyNow, "apply-now", "Apply now, at the next token", Context::Layers, &["!"]),
    global(
        Action::CancelChange,
        "cancel-change",
        "Give up the draft, or the change under way",
        Context::Layers,
        &["esc"],
    ),
    local(Action::ItemUp, "item-up", "Up", Context::Dialog, &["up"]),
    local(Action::ItemDown, "item-down", "Down", Context::Dialog, &["down"]),
    local(Action::Choose, "choose", "Choose", Context::Dialog, &["enter"]),
    local(Action::DeleteItem, "delete-item", "Delete the session", Context::Dialog, &["delete", "ctrl+d"]),
    local(Action::RenameItem, "rename-item", "Rename the session", Context::Dialog, &["ctrl+e"]),
    local(Action::Close, "close", "Close", Context::Dialog, &["esc"]),
];

impl Action {
    pub fn info(self) -> Option<&'static ActionInfo> {
        ACTIONS.iter().find(|info| info.action == self)
    }

    /// What it does to a text that is being written, if it is of that kind.
    pub fn as_edit(self) -> Option<EditAction> {
        Some(match self {
            Action::DeleteBack => EditAction::DeleteBack,
            Action::DeleteForward => EditAction::DeleteForward,
            Action::DeleteWordBack => EditAction::DeleteWordBack,
            Action::DeleteWordForward => EditAction::DeleteWordForward,
            Action::KillToEnd => EditAction::KillToEnd,
            Action::KillToStart => EditAction::KillToStart,
            Action::Yank => EditAction::Yank,
            Action::Left => EditAction::Left,
            Action::Right => EditAction::Right,
            Action::Up => EditAction::Up,
            Action::Down => EditAction::Down,
            Action::WordLeft => EditAction::WordLeft,
            Action::WordRight => EditAction::WordRight,
            Action::LineStart => EditAction::LineStart,
            Action::LineEnd => EditAction::LineEnd,
            Action::TextStart => EditAction::TextStart,
            Action::TextEnd => EditAction::TextEnd,
            Action::Undo => EditAction::Undo,
            Action::Redo => EditAction::Redo,
            Action::NewLine => EditAction::InsertNewline,
            _ => return None,
        })
    }

    pub fn by_name(name: &str) -> Option<&'static ActionInfo> {
        ACTIONS.iter().find(|info| info.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_stands_once() {
        for (i, a) in ACTIONS.iter().enumerate() {
            for b in &ACTIONS[i + 1..] {
                assert_ne!(a.name, b.name);
                assert_ne!(a.action, b.action, "{}", a.name);
            }
            assert!(!a.words.is_empty() && a.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", a.name);
        }
    }
}
