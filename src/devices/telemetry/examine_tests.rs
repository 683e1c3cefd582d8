use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::devices::DeviceId;
use crate::devices::telemetry::testing::Tree;
use crate::devices::telemetry::{FindingResult, Source};

fn reading(kind: DeviceKind, index: u16) -> Reading {
    Reading::new(DeviceId::new(kind, index), "card".into(), Source::Nvml)
}

fn why(finding: &Finding) -> &str {
    match &finding.result {
        FindingResult::Ok { found } => found,
        FindingResult::Warning { why, .. } | FindingResult::Missing { why, .. } => why,
    }
}

#[test]
fn variables_tell_what_they_hide() {
    let two_and_one = [reading(DeviceKind::Cuda, 0), reading(DeviceKind::Cuda, 1), reading(DeviceKind::Rocm, 0)];
    let told =
        |index: usize, value: &str| visibility(&VARIABLES[index], value, &two_and_one).map(|f| why(&f).to_owned());
    let all = "hides 2 of 2 cuda devices and 1 of 1 rocm devices from computing";
    assert_eq!(told(0, "").as_deref(), Some(&*format!("'' {all}")));
    assert_eq!(told(0, "-1").as_deref(), Some(&*format!("'-1' {all}")));
    assert_eq!(told(0, "0").as_deref(), Some("'0' hides 1 of 2 cuda devices from computing"));
    assert_eq!(told(0, "7,0").as_deref(), Some(&*format!("'7,0' {all}")));
    assert_eq!(told(0, "0,1"), None);
    assert_eq!(told(0, "GPU-8932f937").as_deref(), Some("'GPU-8932f937' hides 1 of 2 cuda devices from computing"));
    assert_eq!(told(1, "0"), None);
    assert_eq!(told(2, "5\x1b[2J").as_deref(), None);
    assert_eq!(told(2, "-1").as_deref(), Some("'-1' hides 1 of 1 rocm devices from computing"));
    assert_eq!(visibility(&VARIABLES[1], "-1", &[]), None);
}

#[test]
fn variables_cannot_command_the_terminal() {
    let finding = visibility(&VARIABLES[1], "9,\x1b]0;x\x07", &[reading(DeviceKind::Rocm, 0)]).unwrap();
    assert!(!why(&finding).contains(['\x1b', '\x07']), "{finding:?}");
}

fn card(vendor: u32, driver: Option<&str>) -> PciCard {
    let address = "0000:01:00.0".parse().unwrap();
    PciCard { address, vendor, device: 0x2684, driver: driver.map(str::to_owned) }
}

#[test]
fn hardware_without_its_driver_is_a_warning() {
    let tree = Tree::new();
    let result = |cards: &[PciCard]| on_the_bus(&NVIDIA, cards, tree.root());
    assert_eq!(why(&result(&[])), "there is no PCI bus to look at");
    std::fs::create_dir_all(tree.path("bus/pci/devices")).unwrap();
    assert_eq!(why(&result(&[card(pci::AMD, Some("amdgpu"))])), "none on the PCI bus");
    let ok = result(&[card(pci::NVIDIA, Some("nvidia"))]);
    assert!(matches!(&ok.result, FindingResult::Ok { found } if found == "0000:01:00.0 [10de:2684] nvidia"), "{ok:?}");
    for (driver, shown) in [(Some("nouveau"), "nouveau"), (None, "no driver")] {
        let finding = result(&[card(pci::NVIDIA, driver)]);
        assert!(matches!(finding.result, FindingResult::Warning { .. }));
        assert_eq!(why(&finding), format!("without nvidia: 0000:01:00.0 [10de:2684] {shown}"));
    }
}

#[test]
fn device_files_are_wanted_where_there_is_a_card() {
    let tree = Tree::new();
    let dev = tree.path("dev");
    assert!(device_files(&dev, &[]).is_empty());
    let whats = |cards: &[PciCard]| device_files(&dev, cards).into_iter().map(|f| f.what).collect::<Vec<_>>();
    assert_eq!(whats(&[card(pci::NVIDIA, None)]), ["NVIDIA device files"]);
    assert_eq!(whats(&[card(pci::AMD, None)]), ["AMD compute device", "Render devices"]);
    tree.file("dev/kfd", "");
    tree.file("dev/dri/renderD128", "");
    tree.file("dev/dri/card0", "");
    tree.file("dev/nvidia0", "");
    tree.file("dev/nvidia-caps", "");
    let found = device_files(&dev, &[]);
    assert_eq!(found.len(), 3);
    for (finding, name) in found.iter().zip(["nvidia0", "kfd", "renderD128"]) {
        assert!(matches!(finding.result, FindingResult::Ok { .. }), "{finding:?}");
        assert_eq!(
            why(finding),
            format!("{} may be used", dev.join(if name == "renderD128" { "dri/renderD128" } else { name }).display())
        );
    }
}

#[test]
fn files_that_may_not_be_used_are_named() {
    let tree = Tree::new();
    tree.file("dev/kfd", "");
    let kfd = tree.path("dev/kfd");
    std::fs::set_permissions(&kfd, std::fs::Permissions::from_mode(0o000)).unwrap();
    // The superuser may do everything: nothing to see then.
    let is_refused = std::fs::File::open(&kfd).is_err();
    let finding = device_files(&tree.path("dev"), &[]).remove(0);
    assert_eq!(matches!(finding.result, FindingResult::Warning { .. }), is_refused, "{finding:?}");
    assert!(!may_use(&tree.path("dev/none")));
}

#[test]
fn this_machine_can_be_examined() {
    let findings = examine(&TelemetryConfig::default(), &[]);
    let whats: Vec<_> = findings.iter().map(|finding| finding.what.as_str()).collect();
    for what in ["NVIDIA hardware", "CUDA driver library", "AMD hardware", "HIP runtime library"] {
        assert!(whats.contains(&what), "{whats:?}");
    }
    assert!(findings.iter().all(|finding| !finding.looked_in.is_empty() && !why(finding).is_empty()));
}
