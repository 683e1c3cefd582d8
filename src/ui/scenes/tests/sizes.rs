//! Resizing at any moment.

use super::super::{SCENES, Setup, Stage};

const ODD: [(u16, u16); 12] = [
    (1, 200),
    (400, 1),
    (400, 5),
    (19, 60),
    (20, 4),
    (59, 16),
    (60, 15),
    (61, 12),
    (79, 11),
    (81, 8),
    (133, 33),
    (260, 90),
];

fn check(stage: &mut Stage, name: &str, size: (u16, u16)) {
    stage.resize(size);
    let area = stage.buf.area;
    for rect in stage.hits.areas_of(|_| true) {
        assert_eq!(rect.intersection(area), rect, "{name} at {size:?}: a hit outside of the screen");
    }
    if let Some(cursor) = stage.cursor {
        assert!(area.contains(cursor), "{name} at {size:?}: the cursor is at {cursor:?}");
    }
}

#[test]
fn a_scene_fits_into_every_size() {
    for scene in SCENES {
        let mut stage = (scene.build)(Setup::new("dark", (120, 40)));
        let small = (0..=30).flat_map(|width| (0..=10).map(move |height| (width, height)));
        for size in small.chain(ODD) {
            check(&mut stage, scene.name, size);
        }
        stage.resize((120, 40));
        let fresh = (scene.build)(Setup::new("dark", (120, 40)));
        assert_eq!(super::text_of(&stage.buf), super::text_of(&fresh.buf), "{} came back changed", scene.name);
    }
}

#[test]
fn a_scene_can_begin_at_every_size() {
    for scene in SCENES {
        for size in [(0, 0), (1, 1), (20, 4), (25, 9), (40, 12), (60, 16), (80, 20)] {
            let mut stage = (scene.build)(Setup::new("dark", size));
            check(&mut stage, scene.name, size);
        }
    }
}
