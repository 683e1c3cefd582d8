//! The binary table `gpu_metrics` of amdgpu, whose layout is in the kernel's `kgd_pp_interface.h`.
//!
//! It starts with its size (u16), a format revision and a content revision (u8 each). Format 1 is of discrete cards,
//! 2 and 3 are of processors with graphics. Revisions of one format share their beginnings, so a newer one than those
//! known here is read as far as the layout has been stable, or not at all.

/// What the table tells; `None` where it says 0xffff or ends before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GpuMetrics {
    /// Whether the format is one of processors with graphics.
    pub is_integrated: bool,
    /// Busy share, `0..=1`.
    pub utilisation: Option<f32>,
    pub temperature_c: Option<f32>,
    pub power_w: Option<f32>,
    pub clock_mhz: Option<u32>,
    pub memory_clock_mhz: Option<u32>,
}

/// Where a format keeps a field, and into how many parts it divides our units.
struct Layout {
    is_integrated: bool,
    /// The first present one counts: edge, then hot spot.
    temperatures: &'static [usize],
    /// Of one degree.
    temperature_parts: f32,
    activity: usize,
    /// What full load reads as.
    activity_full: f32,
    power: usize,
    power_is_u32: bool,
    /// Of one watt.
    power_parts: f32,
    /// The current one, else the average one.
    clocks: &'static [usize],
    memory_clocks: &'static [usize],
}

/// Contents 1 to 3: cards since Vega 20. Whole degrees, percent and watts.
const DISCRETE: Layout = Layout {
    is_integrated: false,
    temperatures: &[4, 6],
    temperature_parts: 1.0,
    activity: 16,
    activity_full: 100.0,
    power: 22,
    power_is_u32: false,
    power_parts: 1.0,
    clocks: &[54, 40],
    memory_clocks: &[58, 44],
};

/// Contents 4 and later: the MI300 family, which has a hot spot but no edge. Clocks lie at the end, where revisions
/// differ.
const ACCELERATOR: Layout = Layout {
    is_integrated: false,
    temperatures: &[4],
    temperature_parts: 1.0,
    activity: 12,
    activity_full: 100.0,
    power: 10,
    power_is_u32: false,
    power_parts: 1.0,
    clocks: &[],
    memory_clocks: &[],
};

/// Format 2: hundredths of degrees and of percent, milliwatts.
const INTEGRATED: Layout = Layout {
    is_integrated: true,
    temperatures: &[4, 6],
    temperature_parts: 100.0,
    activity: 28,
    activity_full: 10_000.0,
    power: 40,
    power_is_u32: false,
    power_parts: 1_000.0,
    clocks: &[76, 64],
    memory_clocks: &[80, 68],
};

/// Format 3: Strix Point and later.
const INTEGRATED_3: Layout = Layout {
    is_integrated: true,
    temperatures: &[4, 6],
    temperature_parts: 100.0,
    activity: 42,
    activity_full: 100.0,
    power: 112,
    power_is_u32: true,
    power_parts: 1_000.0,
    clocks: &[174],
    memory_clocks: &[186],
};

impl GpuMetrics {
    /// `None` for a table that is cut off, of an unknown format or of the two badly aligned first revisions.
    pub fn parse(table: &[u8]) -> Option<GpuMetrics> {
        let (size, format, content) = (u16_at(table, 0)?, *table.get(2)?, *table.get(3)?);
        let table = table.get(..usize::from(size))?;
        let layout = match (format, content) {
            (1, 1..=3) => &DISCRETE,
            (1, 4..=7) => &ACCELERATOR,
            (2, 1..=4) => &INTEGRATED,
            (3, 0) => &INTEGRATED_3,
            _ => return None,
        };
        let present = |offset: &usize| u16_at(table, *offset).filter(|n| *n != u16::MAX);
        let first = |offsets: &[usize]| offsets.iter().find_map(present);
        let clock = |offsets: &[usize]| first(offsets).filter(|mhz| *mhz > 0).map(u32::from);
        let power = if layout.power_is_u32 {
            u32_at(table, layout.power).filter(|n| *n != u32::MAX).map(|n| n as f32)
        } else {
            present(&layout.power).map(f32::from)
        };
        let activity = present(&layout.activity).map(f32::from);
        // Format 3 is documented in percent, but some firmware fills it with hundredths, as format 2 has them.
        let full = if activity > Some(100.0) { 10_000.0 } else { layout.activity_full };
        let is_possible = |activity: &f32| layout.is_integrated || *activity <= 100.0;
        Some(GpuMetrics {
            is_integrated: layout.is_integrated,
            utilisation: activity.filter(is_possible).map(|a| a / full).filter(|share| *share <= 1.0),
            // A sensor that does not exist reads 0 in some revisions; no running chip has exactly that.
            temperature_c: first(layout.temperatures)
                .filter(|t| *t > 0)
                .map(|t| f32::from(t) / layout.temperature_parts),
            power_w: power.map(|p| p / layout.power_parts),
            clock_mhz: clock(layout.clocks),
            memory_clock_mhz: clock(layout.memory_clocks),
        })
    }
}

fn u16_at(table: &[u8], offset: usize) -> Option<u16> {
    let field = table.get(offset..)?.first_chunk()?;
    Some(u16::from_le_bytes(*field))
}

fn u32_at(table: &[u8], offset: usize) -> Option<u32> {
    let field = table.get(offset..)?.first_chunk()?;
    Some(u32::from_le_bytes(*field))
}

/// Tables as the driver writes them, for tests: every field absent but those given.
#[cfg(test)]
pub fn table(size: u16, format: u8, content: u8, fields: &[(usize, u16)]) -> Vec<u8> {
    let mut table = vec![0xff; usize::from(size)];
    table[..2].copy_from_slice(&size.to_le_bytes());
    (table[2], table[3]) = (format, content);
    for (offset, value) in fields {
        table[*offset..offset + 2].copy_from_slice(&value.to_le_bytes());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_discrete_card() {
        let blob = table(120, 1, 3, &[(4, 57), (6, 71), (16, 83), (22, 298), (54, 2481), (44, 1249)]);
        let metrics = GpuMetrics::parse(&blob).unwrap();
        let expected = GpuMetrics {
            is_integrated: false,
            utilisation: Some(0.83),
            temperature_c: Some(57.0),
            power_w: Some(298.0),
            clock_mhz: Some(2481),
            memory_clock_mhz: Some(1249),
        };
        assert_eq!(metrics, expected);
    }

    #[test]
    fn an_accelerator_without_an_edge_sensor() {
        let metrics = GpuMetrics::parse(&table(264, 1, 4, &[(4, 44), (10, 141), (12, 100)])).unwrap();
        assert_eq!((metrics.temperature_c, metrics.power_w, metrics.utilisation), (Some(44.0), Some(141.0), Some(1.0)));
        assert_eq!((metrics.is_integrated, metrics.clock_mhz), (false, None));
    }

    #[test]
    fn processors_with_graphics() {
        for content in 1..=4 {
            let blob = table(128, 2, content, &[(4, 5_250), (28, 3_700), (40, 15_400), (76, 1_900), (80, 1_600)]);
            let metrics = GpuMetrics::parse(&blob).unwrap();
            assert!(metrics.is_integrated);
            assert_eq!((metrics.temperature_c, metrics.utilisation), (Some(52.5), Some(0.37)));
            assert_eq!((metrics.power_w, metrics.clock_mhz), (Some(15.4), Some(1_900)));
        }
        let fields = [(4, 4_800), (42, 12), (112, 0x86a0), (114, 1), (174, 800), (186, 1_000)];
        let metrics = GpuMetrics::parse(&table(264, 3, 0, &fields)).unwrap();
        assert_eq!((metrics.utilisation, metrics.power_w), (Some(0.12), Some(100.0)));
        assert_eq!((metrics.clock_mhz, metrics.memory_clock_mhz), (Some(800), Some(1_000)));
        let hundredths = GpuMetrics::parse(&table(264, 3, 0, &[(42, 1_200)])).unwrap();
        assert_eq!(hundredths.utilisation, Some(0.12));
    }

    #[test]
    fn absent_fields_stay_absent() {
        for (size, format, content) in [(120, 1, 3), (264, 1, 4), (128, 2, 1), (264, 3, 0)] {
            let metrics = GpuMetrics::parse(&table(size, format, content, &[])).unwrap();
            assert_eq!(metrics, GpuMetrics { is_integrated: format > 1, ..GpuMetrics::default() });
        }
    }

    #[test]
    fn impossible_loads_are_not_told() {
        assert_eq!(GpuMetrics::parse(&table(120, 1, 3, &[(16, 101)])).unwrap().utilisation, None);
        assert_eq!(GpuMetrics::parse(&table(128, 2, 1, &[(28, 10_001)])).unwrap().utilisation, None);
    }

    #[test]
    fn cut_off_and_unknown_tables_are_refused() {
        let blob = table(120, 1, 3, &[(4, 57)]);
        for n in 0..blob.len() {
            assert_eq!(GpuMetrics::parse(&blob[..n]), None, "{n} bytes");
        }
        for (format, content) in [(0, 0), (1, 0), (2, 0), (3, 9), (4, 0), (255, 255)] {
            assert_eq!(GpuMetrics::parse(&table(120, format, content, &[])), None);
        }
        // A table that says it is shorter than its fields has none of them.
        assert_eq!(GpuMetrics::parse(&table(4, 1, 3, &[])), Some(GpuMetrics::default()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(blob in proptest::collection::vec(any::<u8>(), 0..300), format in 0u8..4, content in 0u8..6) {
            let mut blob = blob;
            if blob.len() >= 4 {
                let size = (blob.len() as u16).to_le_bytes();
                blob[..4].copy_from_slice(&[size[0], size[1], format, content]);
            }
            if let Some(metrics) = GpuMetrics::parse(&blob) {
                prop_assert!(metrics.utilisation.is_none_or(|u| (0.0..=1.0).contains(&u)));
            }
        }
    }
}
