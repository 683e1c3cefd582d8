use super::*;
use crate::engine::kv::KvType;
use crate::engine::protocol::{DeviceProgress, LoadOptions, RequestId};
use crate::ui::theme::ColourDepth;
use crate::ui::view::dialogs::tests::picture;

fn draw(loading: &Loading, ascii: bool, (columns, rows): (u16, u16)) -> String {
    let area = Rect::new(0, 0, columns, rows);
    let (mut buf, mut hits) = (Buffer::empty(area), Hits::default());
    let theme = Theme::named("dark", &[], ColourDepth::True, ascii).0;
    let keymap = Keymap::default();
    let devices: Vec<DeviceId> = ["cuda0", "rocm0", "cpu0"].map(|id| id.parse().expect("an id")).to_vec();
    let data =
        LoadingData { theme: &theme, keymap: &keymap, name: None, devices: &devices, now: Duration::from_millis(6250) };
    draw_loading(loading, &data, area, &mut buf, &mut hits);
    picture(&buf)
}

fn loading() -> Loading {
    let gib = |n: f64| (n * f64::from(1 << 30)) as u64;
    let device = |id: &str, done, total| DeviceProgress {
        id: id.parse().expect("an id"),
        done_bytes: gib(done),
        total_bytes: gib(total),
    };
    Loading {
        id: RequestId(1),
        options: LoadOptions {
            path: "/models/Qwen3-30B-A3B-Instruct-2507-Q4_K_M.gguf".into(),
            n_ctx: None,
            kv: KvType::F16,
            placement: None,
        },
        since: Duration::from_millis(1000),
        done_bytes: gib(9.1),
        total_bytes: gib(17.3),
        devices: vec![device("cuda0", 7.2, 9.6), device("cpu0", 1.9, 7.7)],
        preparing: None,
    }
}

#[test]
fn each_device_has_its_bar() {
    insta::assert_snapshot!("80x24", draw(&loading(), false, (80, 24)));
    insta::assert_snapshot!("120x40", draw(&loading(), false, (120, 40)));
    let ascii = draw(&loading(), true, (80, 24));
    assert!(ascii.is_ascii(), "{ascii}");
}

#[test]
fn neither_nothing_to_load_nor_little_room_is_a_fault() {
    let mut nothing = loading();
    (nothing.done_bytes, nothing.total_bytes) = (0, 0);
    nothing.since = Duration::from_secs(100);
    nothing.devices = vec![DeviceProgress { id: "rocm0".parse().expect("an id"), done_bytes: 5, total_bytes: 0 }];
    for columns in 0..=60 {
        for rows in 0..=12 {
            draw(&nothing, false, (columns, rows));
        }
    }
    assert!(draw(&nothing, false, (80, 24)).contains("0 B / 0 B"));
}
