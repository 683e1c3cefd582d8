//! Messages as a tree: editing a message or asking for another answer makes a branch, and no branch is lost.

use std::collections::BTreeMap;

use super::record::{Message, MessageId};

/// All messages of a session and the branch that is shown.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Conversation {
    /// A parent's number is lower than its children's.
    messages: BTreeMap<MessageId, Message>,
    /// Oldest first. `None`: those that begin a conversation.
    children: BTreeMap<Option<MessageId>, Vec<MessageId>>,
    /// The child that is shown, or was when its parent was.
    shown: BTreeMap<Option<MessageId>, MessageId>,
    leaf: Option<MessageId>,
}

impl Conversation {
    /// A tree of what could be read. A message whose parent is lost follows the one written before that.
    /// `shown`: the leaves in the order in which they were shown; those that do not exist are passed over.
    pub(super) fn rebuilt(messages: BTreeMap<MessageId, Message>, shown: &[MessageId]) -> Conversation {
        let mut tree = Conversation { messages, ..Conversation::default() };
        let ids: Vec<MessageId> = tree.messages.keys().copied().collect();
        for (i, &id) in ids.iter().enumerate() {
            let Some(message) = tree.messages.get_mut(&id) else { continue };
            message.parent = message.parent.and_then(|parent| {
                let n_up_to = ids.partition_point(|&other| other <= parent).min(i);
                n_up_to.checked_sub(1).and_then(|at| ids.get(at)).copied()
            });
            let parent = message.parent;
            tree.children.entry(parent).or_default().push(id);
            tree.shown.insert(parent, id);
        }
        for &id in shown {
            tree.set_leaf(id);
        }
        tree
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// All branches together.
    pub fn n_messages(&self) -> usize {
        self.messages.len()
    }

    /// All branches, oldest message first.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.messages.values()
    }

    pub fn get(&self, id: MessageId) -> Option<&Message> {
        self.messages.get(&id)
    }

    /// The last message that is shown; the next one follows it.
    pub fn leaf(&self) -> Option<MessageId> {
        self.leaf
    }

    /// The shown messages, from the first to the leaf.
    pub fn path(&self) -> Vec<&Message> {
        let mut path: Vec<&Message> = self.upwards(self.leaf).collect();
        path.reverse();
        path
    }

    /// A message and what it follows, back to the first.
    fn upwards(&self, from: Option<MessageId>) -> impl Iterator<Item = &Message> {
        let first = from.and_then(|id| self.messages.get(&id));
        std::iter::successors(first, |m| m.parent.and_then(|id| self.messages.get(&id)))
    }

    /// The number that the next message gets.
    pub fn next_id(&self) -> MessageId {
        MessageId(self.messages.last_key_value().map_or(1, |(id, _)| id.0.saturating_add(1)))
    }

    /// Adds a message and shows it. Its `id` is set here. Where its `parent` has children, it begins a branch: to
    /// edit a message or to answer anew, give the parent that the old message has. An unknown parent counts as none.
    pub fn add(&mut self, mut message: Message) -> MessageId {
        message.id = self.next_id();
        message.parent = message.parent.filter(|parent| self.messages.contains_key(parent));
        let (id, parent) = (message.id, message.parent);
        self.messages.insert(id, message);
        self.children.entry(parent).or_default().push(id);
        self.set_leaf(id);
        id
    }

    /// Shows the branch that ends in this message. False: there is no such message.
    pub fn set_leaf(&mut self, id: MessageId) -> bool {
        let Some(message) = self.messages.get(&id) else { return false };
        if message.parent == self.leaf {
            self.shown.insert(message.parent, id);
        } else {
            let links: Vec<_> = self.upwards(Some(id)).map(|m| (m.parent, m.id)).collect();
            self.shown.extend(links);
        }
        self.leaf = Some(id);
        true
    }

    /// Begins a conversation anew with the next message; the others stay as branches.
    pub fn clear_leaf(&mut self) {
        self.leaf = None;
    }

    /// Where a message stands among those that follow the same one, from 0, and how many these are.
    pub fn siblings(&self, id: MessageId) -> Option<(usize, usize)> {
        let siblings = self.children.get(&self.get(id)?.parent)?;
        Some((siblings.iter().position(|&s| s == id)?, siblings.len()))
    }

    /// Shows the sibling so many places after a message (before it, if negative), with the branch that was last
    /// shown below it. Gives the new leaf; `None`: there is no such sibling, and nothing changes.
    pub fn show_sibling(&mut self, id: MessageId, step: isize) -> Option<MessageId> {
        let (index, _) = self.siblings(id)?;
        let siblings = self.children.get(&self.get(id)?.parent)?;
        let mut leaf = *siblings.get(index.checked_add_signed(step)?)?;
        while let Some(&below) = self.shown.get(&Some(leaf)) {
            leaf = below;
        }
        self.set_leaf(leaf);
        Some(leaf)
    }

    /// For changes of what a message says. Its `id` and `parent` stay as they are.
    pub fn update(&mut self, id: MessageId, change: impl FnOnce(&mut Message)) -> bool {
        let Some(message) = self.messages.get_mut(&id) else { return false };
        let parent = message.parent;
        change(message);
        (message.id, message.parent) = (id, parent);
        true
    }

    pub fn set_text(&mut self, id: MessageId, text: &str) -> bool {
        self.update(id, |m| text.clone_into(&mut m.text))
    }

    pub fn append_text(&mut self, id: MessageId, text: &str) -> bool {
        self.update(id, |m| m.text.push_str(text))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sessions::record::Role;

    fn add(tree: &mut Conversation, parent: Option<MessageId>, role: Role, text: &str) -> MessageId {
        tree.add(Message { parent, ..Message::new(role, text) })
    }

    fn texts(tree: &Conversation) -> Vec<&str> {
        tree.path().iter().map(|m| m.text.as_str()).collect()
    }

    #[test]
    fn an_edited_message_begins_a_branch_and_the_other_is_reached_again() {
        let mut tree = Conversation::default();
        assert!(tree.is_empty() && tree.path().is_empty() && tree.leaf().is_none());
        let q1 = add(&mut tree, None, Role::User, "q1");
        let a1 = add(&mut tree, Some(q1), Role::Assistant, "a1");
        let q2 = add(&mut tree, Some(a1), Role::User, "q2");
        let a2 = add(&mut tree, Some(q2), Role::Assistant, "a2");
        assert_eq!(texts(&tree), ["q1", "a1", "q2", "a2"]);
        assert_eq!(tree.siblings(q2), Some((0, 1)));

        let edited = add(&mut tree, Some(a1), Role::User, "q2'");
        let b2 = add(&mut tree, Some(edited), Role::Assistant, "b2");
        assert_eq!(texts(&tree), ["q1", "a1", "q2'", "b2"]);
        assert_eq!((tree.siblings(q2), tree.siblings(edited)), (Some((0, 2)), Some((1, 2))));
        let b2_again = add(&mut tree, Some(edited), Role::Assistant, "b2'");
        assert_eq!(texts(&tree), ["q1", "a1", "q2'", "b2'"]);

        assert_eq!(tree.show_sibling(edited, -1), Some(a2));
        assert_eq!(texts(&tree), ["q1", "a1", "q2", "a2"]);
        assert_eq!(tree.show_sibling(q2, 1), Some(b2_again), "the leaf that was last shown there");
        assert_eq!(tree.show_sibling(b2_again, -1), Some(b2));
        tree.show_sibling(edited, -1);
        assert_eq!(tree.show_sibling(q2, 1), Some(b2), "it is kept over a visit elsewhere");
        assert_eq!((tree.show_sibling(q2, -1), tree.show_sibling(q2, 2), tree.leaf()), (None, None, Some(b2)));
        assert_eq!(tree.show_sibling(MessageId(99), 1), None);
    }

    #[test]
    fn a_first_message_may_be_edited_too() {
        let mut tree = Conversation::default();
        let q1 = add(&mut tree, None, Role::User, "q1");
        add(&mut tree, Some(q1), Role::Assistant, "a1");
        tree.clear_leaf();
        assert!(tree.path().is_empty());
        let other = add(&mut tree, None, Role::User, "other");
        assert_eq!((texts(&tree), tree.siblings(other)), (vec!["other"], Some((1, 2))));
        tree.show_sibling(other, -1);
        assert_eq!(texts(&tree), ["q1", "a1"]);
    }

    #[test]
    fn text_of_a_message_changes_in_place() {
        let mut tree = Conversation::default();
        let id = add(&mut tree, Some(MessageId(7)), Role::User, "a");
        assert_eq!(tree.get(id).unwrap().parent, None, "an unknown parent counts as none");
        assert!(tree.append_text(id, "b") && !tree.append_text(MessageId(7), "b"));
        assert_eq!(texts(&tree), ["ab"]);
        assert!(tree.set_text(id, "c"));
        tree.update(id, |m| (m.id, m.parent) = (MessageId(9), Some(MessageId(9))));
        assert_eq!((tree.get(id).unwrap().id, tree.get(id).unwrap().parent), (id, None));
        assert_eq!(texts(&tree), ["c"]);
    }

    proptest! {
        /// Whatever the numbers of a file, no walk through the tree goes round.
        #[test]
        fn parents_come_before_their_children(
            links in prop::collection::btree_map(0..40_u64, prop::option::of(0..60_u64), 0..30),
            shown in prop::collection::vec(0..60_u64, 0..9),
        ) {
            let message = |id, parent: Option<u64>| Message {
                id: MessageId(id),
                parent: parent.map(MessageId),
                ..Message::new(Role::User, "")
            };
            let messages: BTreeMap<_, _> = links.iter().map(|(&id, &p)| (MessageId(id), message(id, p))).collect();
            let shown: Vec<_> = shown.into_iter().map(MessageId).collect();
            let tree = Conversation::rebuilt(messages, &shown);
            for m in tree.messages() {
                prop_assert!(m.parent.is_none_or(|parent| parent < m.id && tree.get(parent).is_some()));
                let given = links[&m.id.0].map(MessageId);
                if given.is_some_and(|parent| parent < m.id && tree.get(parent).is_some()) {
                    prop_assert_eq!(m.parent, given);
                }
                let (index, n) = tree.siblings(m.id).unwrap();
                prop_assert!(index < n);
            }
            prop_assert_eq!(tree.leaf(), shown.iter().rfind(|id| tree.get(**id).is_some()).copied());
        }
    }
}
