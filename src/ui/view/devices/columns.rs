//! Which fields there is room for, and where they stand: the same for all cards.

use super::fields::{Field, natural_width};
use crate::ui::gauges::Gauges;
use crate::ui::theme::Theme;

/// A field's place on a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Column {
    pub field: Field,
    /// From the start of the line.
    pub x: u16,
    pub width: u16,
}

/// One step of making use of a line.
#[derive(Clone, Copy)]
enum Step {
    /// Shows a field, if it fits whole.
    Show(Field),
    /// Widens a field that is shown, up to so many columns.
    Widen(Field, u16),
}

use Step::{Show, Widen};

/// In the order of importance.
const STEPS: &[Step] = &[
    Show(Field::Id),
    Show(Field::Tag),
    Show(Field::Figures),
    Show(Field::Load),
    Show(Field::Bar),
    Widen(Field::Bar, 10),
    Show(Field::Ms),
    Show(Field::Name),
    Show(Field::Share),
    Show(Field::LoadLabel),
    Widen(Field::Name, 11),
    Widen(Field::Bar, 12),
    Show(Field::Spark),
    Show(Field::Temperature),
    Show(Field::Power),
    Show(Field::ShareLabel),
    Widen(Field::Bar, 16),
    Show(Field::MemoryLabel),
    Show(Field::Layers),
    Show(Field::Wait),
    Show(Field::Prefill),
    Show(Field::Clock),
    Show(Field::Link),
    Widen(Field::Bar, 22),
    Widen(Field::Spark, 10),
    Widen(Field::Name, 24),
    Widen(Field::Bar, 34),
    Widen(Field::Spark, 20),
];

/// What stands on first lines when there are second lines, after everything else.
const FIRST_OF_TWO: &[Step] = &[Show(Field::Wait), Show(Field::Prefill)];

/// What stands on second lines, in this order, where first lines do not have it.
const SECOND_LINE: &[Field] =
    &[Field::Layers, Field::Prefill, Field::Wait, Field::Power, Field::Temperature, Field::Clock, Field::Link];

/// The columns of the first and second line of every card, for lines of `width` columns.
pub(super) fn layout(gauges: &Gauges, theme: &Theme, width: u16, two_lines: bool) -> [Vec<Column>; 2] {
    if !two_lines {
        return [placed(&chosen(gauges, theme, width, STEPS.to_vec()), Field::ALL), vec![]];
    }
    let waits = |step: &Step| match step {
        Show(field) => {
            matches!(field, Field::Layers | Field::Prefill | Field::Wait | Field::Clock | Field::Link)
        }
        Widen(..) => false,
    };
    let steps = STEPS.iter().filter(|step| !waits(step)).chain(FIRST_OF_TWO);
    let upper = chosen(gauges, theme, width, steps.copied().collect());
    let left = SECOND_LINE.iter().filter(|field| upper.iter().all(|(shown, _)| shown != *field));
    let lower = chosen(gauges, theme, width, left.map(|field| Show(*field)).collect());
    [placed(&upper, Field::ALL), placed(&lower, SECOND_LINE)]
}

/// Fields and their widths, in no order.
fn chosen(gauges: &Gauges, theme: &Theme, width: u16, steps: Vec<Step>) -> Vec<(Field, u16)> {
    let mut fields: Vec<(Field, u16)> = vec![];
    let mut left = width;
    for step in steps {
        match step {
            // A share of what? Only its neighbour tells.
            Show(Field::Share) if fields.iter().all(|(shown, _)| *shown != Field::Ms) => {}
            Show(Field::ShareLabel) if fields.iter().all(|(shown, _)| *shown != Field::Share) => {}
            Show(field) => {
                let gap = if fields.is_empty() { 0 } else { field.gap() };
                let Some(natural) = natural_width(field, gauges, theme) else { continue };
                let narrowest = natural.min(field.narrowest());
                if gap + narrowest <= left {
                    left -= gap + narrowest;
                    fields.push((field, narrowest));
                }
            }
            Widen(field, to) => {
                let natural = natural_width(field, gauges, theme).unwrap_or(0);
                if let Some((_, now)) = fields.iter_mut().find(|(shown, _)| *shown == field) {
                    let more = to.min(natural).saturating_sub(*now).min(left);
                    *now += more;
                    left -= more;
                }
            }
        }
    }
    fields
}

/// Fields where they stand, in this order.
fn placed(chosen: &[(Field, u16)], order: &[Field]) -> Vec<Column> {
    let mut columns: Vec<Column> = vec![];
    for &field in order {
        let Some(&(_, width)) = chosen.iter().find(|(shown, _)| *shown == field) else { continue };
        let x = columns.last().map_or(0, |before| before.x + before.width + field.gap());
        columns.push(Column { field, x, width });
    }
    columns
}
