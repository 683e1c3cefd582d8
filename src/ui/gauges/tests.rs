use std::time::Duration;

use super::testing::*;
use super::*;
use crate::devices::telemetry::Source;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn ids(gauges: &Gauges) -> Vec<String> {
    gauges.devices.iter().map(|row| row.id.to_string()).collect()
}

#[test]
fn the_engines_devices_come_first_then_gpus_that_only_telemetry_knows() {
    let mut gauges = Gauges::new(&[facts(CPU0, "Ryzen", false), facts(ROCM0, "7900", false)]);
    let cards = [reading(CUDA0, "4090", 24, 1), reading(ROCM0, "7900", 24, 2), reading(CPU0, "host", 64, 3)];
    gauges.on_telemetry(ms(1), &cards);
    assert_eq!(ids(&gauges), ["cpu0", "rocm0", "cuda0"]);
    let [cpu, rocm, cuda] = &gauges.devices[..] else { panic!("three") };
    assert!(cpu.in_engine && rocm.in_engine && !cuda.in_engine);
    assert_eq!(cpu.reading.as_ref().map(|r| r.source), Some(Source::Host));
    assert_eq!(rocm.memory().map(|m| m.used_bytes()), Some(mib(2)));
    // Told of again, it is the same row; told of no longer, it goes. An engine's device stays.
    gauges.on_telemetry(ms(2), &cards);
    assert_eq!(gauges.devices[2].history.samples().count(), 2);
    gauges.on_telemetry(ms(3), &[]);
    assert_eq!(ids(&gauges), ["cpu0", "rocm0"]);
    assert_eq!(gauges.devices[1].reading, None);
    assert_eq!(gauges.devices[1].memory(), None);
}

#[test]
fn a_simulated_device_is_not_the_card_of_the_same_id() {
    let mut gauges = Gauges::new(&[facts(CUDA0, "4090", true), facts(CPU0, "cpu", true)]);
    gauges.on_telemetry(ms(1), &[reading(CUDA0, "P400", 2, 1), reading(CPU0, "host", 64, 3)]);
    assert_eq!(ids(&gauges), ["cuda0", "cpu0", "cuda0"]);
    assert_eq!(gauges.devices[0].reading, None);
    assert!(!gauges.devices[2].simulated && !gauges.devices[2].in_engine);
    assert_eq!(gauges.find(CUDA0).map(|(i, _)| i), Some(0));
}

#[test]
fn what_nobody_knows_is_none() {
    let mut gauges = Gauges::new(&[facts(CUDA0, "4090", false)]);
    let bare = Reading::new(CUDA0, "4090".into(), Source::Nvml);
    gauges.on_telemetry(ms(1), std::slice::from_ref(&bare));
    let row = &gauges.devices[0];
    assert_eq!((row.memory(), row.load, row.memory_total_bytes()), (None, None, None));
    let sample = row.history.samples().next().copied();
    assert_eq!(sample, Some(Sample { at: ms(1), ..Sample::default() }));
    gauges.on_telemetry(ms(2), &[Reading { utilisation: Some(f32::NAN), ..bare }]);
    assert_eq!(gauges.devices[0].load, None);
}

#[test]
fn utilisation_is_the_readings_else_our_own_computing() {
    let mut gauges = Gauges::new(&[facts(CUDA0, "4090", false), facts(ROCM0, "7900", true)]);
    let at = |busy: u64| {
        let device = |id| DeviceStats { busy_total: ms(busy), ..device_stats(id, 100, [1, 1, 1]) };
        stats(&[device(CUDA0), device(ROCM0)])
    };
    gauges.on_stats(ms(0), &at(0));
    gauges.on_stats(ms(500), &at(100));
    gauges.on_telemetry(ms(500), &[Reading { utilisation: Some(0.9), ..reading(CUDA0, "4090", 24, 1) }]);
    let load = |i: usize| gauges.devices[i].load;
    assert_eq!(load(0), Some(Load { share: 0.9, is_measured_outside: true }));
    assert_eq!(load(1), Some(Load { share: 0.2, is_measured_outside: false }));
    // A card whose driver gives no utilisation.
    gauges.on_telemetry(ms(500), &[reading(CUDA0, "4090", 24, 1)]);
    assert_eq!(gauges.devices[0].load, Some(Load { share: 0.2, is_measured_outside: false }));
}

#[test]
fn the_hosts_load_is_nobodys_where_several_devices_share_it() {
    let host = Reading { utilisation: Some(0.9), ..reading(CPU0, "host", 64, 3) };
    let mut one = Gauges::new(&[facts(CPU0, "cpu", false), facts(CUDA0, "4090", true)]);
    one.on_telemetry(ms(1), std::slice::from_ref(&host));
    assert_eq!(one.devices[0].load.map(|l| l.share), Some(0.9));
    let mut two = Gauges::new(&[facts(CPU0, "cpu", false), facts(CPU1, "cpu", false)]);
    two.on_telemetry(ms(1), &[host]);
    assert_eq!(two.devices[0].load, None);
}

#[test]
fn memory_is_split_and_nothing_is_negative() {
    let stats = device_stats(CUDA0, 1000, [300, 100, 50]);
    let split = MemorySplit::new(Some(&stats), None).unwrap();
    assert_eq!((split.others_bytes, split.free_bytes), (mib(512), mib(38)));
    // The reading is older than the load: nothing was used then.
    let split = MemorySplit::new(Some(&stats), Some(&reading(CUDA0, "x", 1000, 10))).unwrap();
    assert_eq!((split.others_bytes, split.used_bytes()), (0, mib(450)));
    let staged = DeviceStats { ours_bytes: mib(650), ..stats };
    let split = MemorySplit::new(Some(&staged), Some(&reading(CUDA0, "x", 1000, 700))).unwrap();
    assert_eq!((split.staged_bytes, split.others_bytes, split.free_bytes), (mib(200), mib(50), mib(300)));
    let gone = Reading { state: PowerState::Gone, ..reading(CUDA0, "x", 1000, 700) };
    assert_eq!(MemorySplit::new(Some(&stats), Some(&gone)), None);
}

proptest::proptest! {
    #[test]
    fn the_pieces_are_the_total(
        total in 1u64..100, used in 0u64..200, counted in 0u64..100, free in 0u64..200,
        ours in 0u64..200, pieces in proptest::array::uniform3(0u64..100), with_reading: bool,
    ) {
        let stats = DeviceStats {
            total_bytes: counted,
            free_bytes: free,
            ours_bytes: ours,
            weight_bytes: pieces[0],
            kv_bytes: pieces[1],
            scratch_bytes: pieces[2],
            ..device_stats(CUDA0, 1, [0; 3])
        };
        let seen = Reading { memory_total_bytes: Some(total), memory_used_bytes: Some(used), ..reading(CUDA0, "x", 0, 0) };
        if let Some(s) = MemorySplit::new(Some(&stats), with_reading.then_some(&seen)) {
            let pieces = [s.weight_bytes, s.kv_bytes, s.scratch_bytes, s.staged_bytes, s.others_bytes, s.free_bytes];
            proptest::prop_assert_eq!(pieces.iter().sum::<u64>(), s.total_bytes);
            proptest::prop_assert_eq!(s.total_bytes, if with_reading { total } else { counted });
        }
    }
}

#[test]
fn stats_are_sampled_only_where_no_telemetry_comes() {
    let mut gauges = Gauges::new(&[facts(CUDA0, "4090", false)]);
    let now = stats(&[device_stats(CUDA0, 100, [1, 1, 1])]);
    (0..=10).for_each(|i| gauges.on_stats(ms(i * 100), &now));
    let times = |gauges: &Gauges| gauges.devices[0].history.samples().map(|s| s.at).collect::<Vec<_>>();
    assert_eq!(times(&gauges), [ms(0), ms(300), ms(600), ms(900)]);
    gauges.on_telemetry(ms(1000), &[]);
    (11..=26).for_each(|i| gauges.on_stats(ms(i * 100), &now));
    assert_eq!(times(&gauges)[4..], [ms(1000), ms(2500)]);
}

#[test]
fn tokens_pass_through_devices_with_parts_while_an_answer_streams() {
    let mut gauges = Gauges::new(&[facts(CUDA0, "4090", true), facts(ROCM0, "7900", true)]);
    let mut now = stats(&[device_stats(CUDA0, 100, [1, 1, 1]), device_stats(ROCM0, 100, [0; 3])]);
    gauges.on_stats(ms(0), &now);
    now.streaming = false;
    gauges.on_stats(ms(1000), &now);
    let rates = |i: usize| gauges.devices[i].history.samples().map(|s| s.tokens_per_s).collect::<Vec<_>>();
    assert_eq!(rates(0), [Some(41.2), Some(0.0)]);
    assert_eq!(rates(1), [None, None]);
}

#[test]
fn names_cannot_command_the_terminal() {
    let mut gauges = Gauges::new(&[facts(CUDA0, "RTX\x1b[31m", false)]);
    gauges.on_telemetry(ms(0), &[reading(ROCM0, "7900\u{202e}", 1, 1)]);
    assert!(gauges.devices.iter().all(|row| !row.name.contains(['\x1b', '\u{202e}'])));
}

#[test]
fn a_placement_says_what_each_holds_and_none_clears_it() {
    let mut gauges = simulated_rig();
    let texts: Vec<_> = gauges.devices.iter().map(|row| row.holds.text(30, "…")).collect();
    assert_eq!(texts, ["embed, 0-29", "30-43", "44-47, head"]);
    gauges.set_placement(None);
    assert!(gauges.devices.iter().all(|row| row.holds == Holds::default()));
}
