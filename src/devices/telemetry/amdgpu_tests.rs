use std::fs;

use super::super::gpu_metrics::table;
use super::super::reading::LinkRate;
use super::super::testing::{TestCard, Tree};
use super::*;

const PORT: &str = "pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:00.0/0000:03:00.0";

/// A Radeon RX 7900 XTX that is at work.
const RX_7900_XTX: TestCard = TestCard {
    index: 1,
    folder: PORT,
    files: &[
        ("device", "0x744c\n"),
        ("revision", "0xc8\n"),
        ("uevent", "DRIVER=amdgpu\nPCI_ID=1002:744C\nPCI_SLOT_NAME=0000:03:00.0\n"),
        ("power/runtime_status", "active\n"),
        ("mem_info_vram_total", "25753026560\n"),
        ("mem_info_vram_used", "11811160064\n"),
        ("mem_info_vram_vendor", "samsung\n"),
        ("mem_info_gtt_total", "33554432000\n"),
        ("mem_info_gtt_used", "67108864\n"),
        ("gpu_busy_percent", "41\n"),
        ("current_link_speed", "16.0 GT/s PCIe\n"),
        ("current_link_width", "16\n"),
        ("max_link_speed", "16.0 GT/s PCIe\n"),
        ("max_link_width", "16\n"),
        ("pp_dpm_sclk", "0: 500Mhz\n1: 2301Mhz *\n2: 2500Mhz\n"),
        ("pp_dpm_mclk", "0: 96Mhz\n1: 456Mhz\n2: 1249Mhz *\n"),
        ("hwmon/hwmon4/name", "amdgpu\n"),
        ("hwmon/hwmon4/power1_average", "198000000\n"),
        ("hwmon/hwmon4/power1_cap", "339000000\n"),
        ("hwmon/hwmon4/temp1_input", "64000\n"),
        ("hwmon/hwmon4/temp2_input", "79000\n"),
        ("hwmon/hwmon4/fan1_input", "1100\n"),
        ("hwmon/hwmon4/fan1_max", "3300\n"),
    ],
};

fn node(tree: &Tree, index: u32, location: u32, target: u32, n_cpu_cores: u32) {
    let properties = format!(
        "cpu_cores_count {n_cpu_cores}\nsimd_count 96\nlocation_id {location}\ndomain 0\ngfx_target_version {target}\n"
    );
    tree.file(&format!("class/kfd/kfd/topology/nodes/{index}/properties"), properties);
}

fn sample(tree: &Tree) -> Vec<Reading> {
    Amdgpu::open(&tree.config()).sample(Instant::now())
}

fn one(tree: &Tree) -> Reading {
    let mut readings = sample(tree);
    assert_eq!(readings.len(), 1, "{readings:?}");
    readings.remove(0)
}

#[test]
fn a_discrete_card_tells_everything() {
    let tree = Tree::new();
    tree.card(&RX_7900_XTX);
    tree.file("amdgpu.ids", "1.0.0\n744C,\tC8,\tAMD Radeon RX 7900 XTX\n");
    tree.file("module/amdgpu/version", "6.10.5\n");
    node(&tree, 1, 0x300, 110_000, 0);
    fs::create_dir_all(tree.path("class/drm/card1-DP-1")).unwrap();
    let rate = LinkRate { speed_gts: Some(16.0), width: Some(16) };
    let expected = Reading {
        pci: "0000:03:00.0".parse().ok(),
        is_integrated: Some(false),
        memory_total_bytes: Some(25_753_026_560),
        memory_used_bytes: Some(11_811_160_064),
        gtt_total_bytes: Some(33_554_432_000),
        gtt_used_bytes: Some(67_108_864),
        utilisation: Some(0.41),
        power_w: Some(198.0),
        power_limit_w: Some(339.0),
        temperature_c: Some(64.0),
        clock_mhz: Some(2301),
        memory_clock_mhz: Some(1249),
        fan: Some(1.0 / 3.0),
        link: Some(super::super::Link { current: rate, max: rate }),
        driver: Some("amdgpu 6.10.5".into()),
        compute: Some("gfx1100".into()),
        ..Reading::new(DeviceId::new(DeviceKind::Rocm, 0), "AMD Radeon RX 7900 XTX".into(), Source::AmdgpuSysfs)
    };
    assert_eq!(one(&tree), expected);
}

#[test]
fn what_this_process_holds_is_told_by_the_compute_driver() {
    let tree = Tree::new();
    tree.card(&RX_7900_XTX);
    node(&tree, 1, 0x300, 110_000, 0);
    let process = format!("class/kfd/kfd/proc/{}", std::process::id());
    tree.file(&format!("{process}/vram_4242"), "7340032\n");
    assert_eq!(one(&tree).ours_bytes, None);
    tree.file("class/kfd/kfd/topology/nodes/1/gpu_id", "4242\n");
    assert_eq!(one(&tree).ours_bytes, Some(7_340_032));
    tree.file("class/kfd/kfd/topology/nodes/1/gpu_id", "4243\n");
    assert_eq!(one(&tree).ours_bytes, None);
}

#[test]
fn an_accelerator_without_display() {
    let tree = Tree::new();
    let die = |index, folder, power: &'static str| TestCard {
        index,
        folder,
        files: if power.is_empty() { &MI250X[..MI250X.len() - 1] } else { &MI250X },
    };
    static MI250X: [(&str, &str); 6] = [
        ("device", "0x7408\n"),
        ("product_name", "AMD INSTINCT MI250X (MCM) OAM AC MBA\n"),
        ("mem_info_vram_total", "68702699520\n"),
        ("mem_info_vram_used", "10960896\n"),
        ("hwmon/hwmon0/temp2_input", "41000\n"),
        ("hwmon/hwmon0/power1_average", "93000000\n"),
    ];
    tree.card(&die(0, "pci0000:c0/0000:c1:00.0", "93"));
    tree.card(&die(1, "pci0000:c0/0000:c6:00.0", ""));
    node(&tree, 4, 0xc100, 90_010, 0);
    node(&tree, 5, 0xc600, 90_010, 0);
    let readings = sample(&tree);
    let ids: Vec<_> = readings.iter().map(|r| (r.id.to_string(), r.pci.unwrap().to_string())).collect();
    let expected = [("rocm0", "0000:c1:00.0"), ("rocm1", "0000:c6:00.0")];
    assert_eq!(ids, expected.map(|(id, pci)| (id.to_owned(), pci.to_owned())));
    for reading in &readings {
        assert_eq!(reading.compute.as_deref(), Some("gfx90a"));
        assert_eq!(reading.name, "AMD INSTINCT MI250X (MCM) OAM AC MBA");
        // There is no edge sensor: the junction's stands in.
        assert_eq!((reading.temperature_c, reading.utilisation, reading.fan), (Some(41.0), None, None));
        assert_eq!(reading.memory_used_bytes, Some(10_960_896));
    }
    // The second die has no power sensor.
    assert_eq!((readings[0].power_w, readings[1].power_w), (Some(93.0), None));
}

#[test]
fn metrics_stand_in_for_missing_files() {
    let tree = Tree::new();
    tree.card(&TestCard { index: 0, folder: "0000:0a:00.0", files: &[("device", "0x74a1\n")] });
    let blob = table(264, 1, 4, &[(4, 44), (10, 141), (12, 37)]);
    tree.file("devices/0000:0a:00.0/gpu_metrics", &blob);
    let reading = one(&tree);
    assert_eq!((reading.temperature_c, reading.power_w, reading.utilisation), (Some(44.0), Some(141.0), Some(0.37)));
    assert_eq!((reading.name.as_str(), reading.is_integrated), ("AMD GPU 1002:74a1", Some(false)));
    tree.file("devices/0000:0a:00.0/gpu_metrics", &blob[..40]);
    let cut_off = one(&tree);
    assert_eq!((cut_off.temperature_c, cut_off.power_w, cut_off.is_integrated), (None, None, None));
}

#[test]
fn a_processor_with_graphics_lives_in_gtt() {
    let tree = Tree::new();
    let files = &[
        ("device", "0x15bf\n"),
        ("mem_info_vram_total", "536870912\n"),
        ("mem_info_vram_used", "402653184\n"),
        ("mem_info_vram_vendor", "unknown\n"),
        ("mem_info_gtt_total", "14548992000\n"),
        ("mem_info_gtt_used", "1073741824\n"),
        ("gpu_busy_percent", "3\n"),
        ("hwmon/hwmon3/power1_input", "8123000\n"),
        ("hwmon/hwmon3/temp1_input", "45000\n"),
        ("hwmon/hwmon3/freq1_input", "800000000\n"),
    ];
    tree.card(&TestCard { index: 0, folder: "pci0000:00/0000:00:08.1/0000:c4:00.0", files });
    let reading = one(&tree);
    assert_eq!(reading.is_integrated, None);
    assert_eq!((reading.gtt_total_bytes, reading.gtt_used_bytes), (Some(14_548_992_000), Some(1 << 30)));
    assert_eq!((reading.power_w, reading.clock_mhz, reading.power_limit_w), (Some(8.123), Some(800), None));
    // Each of the signs alone is enough.
    tree.file("devices/pci0000:00/0000:00:08.1/0000:c4:00.0/hwmon/hwmon3/in1_input", "700\n");
    assert_eq!(one(&tree).is_integrated, Some(true));
    fs::remove_file(tree.path("devices/pci0000:00/0000:00:08.1/0000:c4:00.0/hwmon/hwmon3/in1_input")).unwrap();
    node(&tree, 1, 0xc400, 110_003, 16);
    assert_eq!(one(&tree).is_integrated, Some(true));
    node(&tree, 1, 0xc400, 110_003, 0);
    assert_eq!(one(&tree).is_integrated, None);
    tree.file("devices/pci0000:00/0000:00:08.1/0000:c4:00.0/gpu_metrics", table(128, 2, 1, &[]));
    assert_eq!((one(&tree).is_integrated, one(&tree).compute.as_deref()), (Some(true), Some("gfx1103")));
}

/// Gives the card all the files that only its driver can answer: a figure of any of them in a reading betrays that the
/// card was asked.
fn booby_trap(tree: &Tree, folder: &str) {
    for (name, content) in RX_7900_XTX.files {
        let is_of_the_bus = ["device", "revision", "uevent", "power/runtime_status"].contains(name);
        if !is_of_the_bus {
            tree.file(&format!("devices/{folder}/{name}"), content);
        }
    }
    tree.file(&format!("devices/{folder}/product_name"), "READ WHILE ASLEEP\n");
    tree.file(&format!("devices/{folder}/gpu_metrics"), table(120, 1, 3, &[(4, 99)]));
}

#[test]
fn a_sleeping_card_is_not_asked() {
    for status in ["suspended\n", "suspending\n"] {
        let tree = Tree::new();
        let files = &[
            ("device", "0x744c\n"),
            ("revision", "0xc8\n"),
            ("uevent", "DRIVER=amdgpu\n"),
            ("power/runtime_status", status),
        ];
        tree.card(&TestCard { index: 0, folder: PORT, files });
        tree.file("amdgpu.ids", "744C, C8, AMD Radeon RX 7900 XTX\n");
        node(&tree, 1, 0x300, 110_000, 0);
        booby_trap(&tree, PORT);
        let id = DeviceId::new(DeviceKind::Rocm, 0);
        let expected = Reading {
            pci: "0000:03:00.0".parse().ok(),
            state: PowerState::Asleep,
            driver: Some("amdgpu".into()),
            compute: Some("gfx1100".into()),
            ..Reading::new(id, "AMD Radeon RX 7900 XTX".into(), Source::AmdgpuSysfs)
        };
        assert_eq!(one(&tree), expected);
    }
}

#[test]
fn a_card_that_falls_asleep_keeps_its_facts_and_wakes_again() {
    let tree = Tree::new();
    tree.card(&RX_7900_XTX);
    let mut amdgpu = Amdgpu::open(&tree.config());
    let awake = amdgpu.sample(Instant::now()).remove(0);
    let status = format!("devices/{PORT}/power/runtime_status");
    tree.file(&status, "suspended\n");
    booby_trap(&tree, PORT);
    let asleep = amdgpu.sample(Instant::now()).remove(0);
    assert_eq!(asleep.state, PowerState::Asleep);
    assert_eq!((&asleep.name, asleep.memory_total_bytes), (&awake.name, awake.memory_total_bytes));
    assert_eq!((asleep.memory_used_bytes, asleep.utilisation, asleep.temperature_c), (None, None, None));
    tree.file(&status, "active\n");
    assert_eq!(amdgpu.sample(Instant::now()).remove(0), awake);
}

#[test]
fn a_card_that_disappears_is_gone_and_keeps_its_id() {
    let tree = Tree::new();
    tree.card(&RX_7900_XTX);
    tree.card(&TestCard { index: 2, folder: "0000:09:00.0", files: &[("device", "0x73bf\n")] });
    let mut amdgpu = Amdgpu::open(&tree.config());
    let start = Instant::now();
    assert_eq!(amdgpu.sample(start).len(), 2);
    tree.remove_card(1);
    let states = |readings: Vec<Reading>| readings.iter().map(|r| (r.id.to_string(), r.state)).collect::<Vec<_>>();
    let (first, second) = ("rocm0".to_owned(), "rocm1".to_owned());
    let soon = amdgpu.sample(start + Duration::from_secs(1));
    assert_eq!((soon[0].memory_used_bytes, soon[0].memory_total_bytes), (None, Some(25_753_026_560)));
    let gone = [(first.clone(), PowerState::Gone), (second.clone(), PowerState::Awake)];
    assert_eq!(states(soon.clone()), gone);
    let findings = amdgpu.findings(&soon);
    assert!(matches!(findings[0].result, super::super::FindingResult::Warning { .. }), "{findings:?}");
    assert_eq!(states(amdgpu.sample(start + Duration::from_secs(120))), [(second.clone(), PowerState::Awake)]);
    // It comes back under its id; one that was never there gets a new one, wherever it sits.
    fs::create_dir_all(tree.path("class/drm/card7")).unwrap();
    std::os::unix::fs::symlink(tree.path(&format!("devices/{PORT}")), tree.path("class/drm/card7/device")).unwrap();
    tree.card(&TestCard { index: 5, folder: "0000:01:00.0", files: &[] });
    let back = states(amdgpu.sample(start + Duration::from_secs(121)));
    let third = "rocm2".to_owned();
    assert_eq!(back, [first, second, third].map(|id| (id, PowerState::Awake)));
}

#[test]
fn garbage_in_files_is_not_available() {
    let huge = vec![b'9'; 10 << 20];
    let contents: [&[u8]; 9] = [
        b"",
        b"\n",
        b"garbage\n",
        b"-999999999\n",
        b"99999999999999999999999999\n",
        b"18446744073709551615",
        b"\xff\xfe\x00\x01",
        b"0: \n1: Mhz *\n*",
        &huge,
    ];
    for content in contents {
        let tree = Tree::new();
        tree.card(&RX_7900_XTX);
        for (name, _) in RX_7900_XTX.files {
            tree.file(&format!("devices/{PORT}/{name}"), content);
        }
        for name in ["gpu_metrics", "product_name"] {
            tree.file(&format!("devices/{PORT}/{name}"), content);
        }
        tree.file("amdgpu.ids", content);
        tree.file("class/kfd/kfd/topology/nodes/1/properties", content);
        let reading = one(&tree);
        let text = String::from_utf8_lossy(&content[..content.len().min(20)]).into_owned();
        let expected = Reading {
            pci: "0000:03:00.0".parse().ok(),
            is_integrated: reading.is_integrated,
            ..Reading::new(reading.id, reading.name.clone(), Source::AmdgpuSysfs)
        };
        assert_eq!(reading, expected, "{text:?}");
        assert!(reading.name.len() <= 512 && !reading.name.chars().any(char::is_control), "{text:?}");
    }
}

#[test]
fn figures_that_contradict_each_other_are_not_told() {
    let tree = Tree::new();
    let files = &[("mem_info_vram_total", "1000"), ("mem_info_vram_used", "1001"), ("gpu_busy_percent", "101")];
    tree.card(&TestCard { index: 0, folder: "0000:03:00.0", files });
    let reading = one(&tree);
    assert_eq!((reading.memory_total_bytes, reading.memory_used_bytes, reading.utilisation), (Some(1000), None, None));
}

#[test]
fn cards_of_others_and_files_that_are_none_are_passed_over() {
    let tree = Tree::new();
    tree.file("class/drm/version", "drm 1.1.0 20060810\n");
    tree.file("class/drm/card0/device/vendor", "0x10de\n");
    tree.file("class/drm/card1/device/vendor", "nonsense");
    fs::create_dir_all(tree.path("class/drm/card2/device/vendor")).unwrap();
    fs::create_dir_all(tree.path("class/drm/card3")).unwrap();
    // No address: neither by its place nor in its uevent.
    tree.file("class/drm/card4/device/vendor", "0x1002\n");
    assert_eq!(sample(&tree), []);
    tree.file("class/drm/card4/device/uevent", "PCI_SLOT_NAME=0000:05:00.0\n");
    assert_eq!(one(&tree).pci.unwrap().to_string(), "0000:05:00.0");
}

#[test]
fn a_card_is_told_once_however_many_nodes_it_has() {
    let tree = Tree::new();
    tree.card(&RX_7900_XTX);
    fs::create_dir_all(tree.path("class/drm/card9")).unwrap();
    std::os::unix::fs::symlink(tree.path(&format!("devices/{PORT}")), tree.path("class/drm/card9/device")).unwrap();
    assert_eq!(sample(&tree).len(), 1);
}

#[test]
fn names_from_the_card_cannot_command_the_terminal() {
    let tree = Tree::new();
    tree.card(&TestCard {
        index: 0,
        folder: "0000:03:00.0",
        files: &[("product_name", "Pro\x1b]52;c;x\x07 W\u{202e}\n")],
    });
    assert_eq!(one(&tree).name, "Pro\u{fffd}]52;c;x\u{fffd} W\u{fffd}");
}

#[test]
fn clocks_are_read_from_the_marked_level() {
    let tree = Tree::new();
    let clock = |text: &str| {
        tree.file("levels", text);
        dpm_clock(&tree.path("levels"))
    };
    assert_eq!(clock("0: 500Mhz *\n1: 2500Mhz\n"), Some(500));
    assert_eq!(clock("S: 19Mhz *\n0: 500Mhz\n"), Some(19));
    assert_eq!(clock("0: 500Mhz\n1: 2500Mhz\n"), None);
    assert_eq!(clock("1: 99999999Mhz *"), None);
}
