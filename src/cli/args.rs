//! Arguments that several commands share, and what they mean.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use crate::cli::CliError;
use crate::devices::Device;
use crate::devices::cpu::matmul::ActivationFormat;
use crate::devices::cpu::{CpuConfig, CpuDevice};
use crate::devices::discover;
use crate::devices::gpu::find::find_gpus;
use crate::devices::gpu::open::GpuChoice;
use crate::devices::rig::Rig;
use crate::engine::kv::KvType;
use crate::engine::protocol::LoadOptions;
use crate::engine::sampler::SamplerSettings;
use crate::models;

/// Which devices there are.
#[derive(Args, Clone, Debug)]
pub struct DeviceArgs {
    /// Threads of each CPU device [default: physical cores]
    #[arg(long, short = 't', value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Number of CPU devices, each with memory of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64), conflicts_with = "rig")]
    pub cpu_devices: u16,
    /// How CPU devices round activations for quantised weights: int8 is faster, f32 is exact [default: int8; demo: f32]
    #[arg(long, value_parser = parse_activations)]
    pub activations: Option<ActivationFormat>,
    /// TOML file of simulated devices (they compute on this CPU)
    #[arg(long)]
    pub rig: Option<PathBuf>,
    /// GPUs to leave alone, by id or PCI address: cuda1,0000:03:00.0
    #[arg(long, value_delimiter = ',', conflicts_with = "rig")]
    pub exclude: Vec<String>,
    /// Use no GPU
    #[arg(long, conflicts_with_all = ["rig", "exclude"])]
    pub no_gpu: bool,
    /// Folder of GPU kernels that were built ahead (`layercake kernels build`)
    #[arg(long, value_name = "DIR")]
    pub kernels: Option<PathBuf>,
}

impl DeviceArgs {
    pub fn open(&self) -> Result<Vec<Arc<dyn Device>>, CliError> {
        let threads = self.threads.map(usize::from);
        let configs = match &self.rig {
            Some(path) => discover::rig_devices(&Rig::load(path)?, threads),
            None => discover::cpu_devices(usize::from(self.cpu_devices), threads),
        };
        let activations = self.activations.unwrap_or(ActivationFormat::Int8);
        let device = |config| Ok(Arc::new(CpuDevice::new(CpuConfig { activations, ..config })?) as Arc<dyn Device>);
        let cpus = configs.into_iter().map(device).collect::<Result<Vec<_>, CliError>>()?;
        Ok(self.open_gpus()?.into_iter().chain(cpus).collect())
    }

    /// The GPUs, untouched. A rig stands for all devices.
    fn open_gpus(&self) -> Result<Vec<Arc<dyn Device>>, CliError> {
        if self.no_gpu || self.rig.is_some() {
            return Ok(vec![]);
        }
        let found = find_gpus();
        let choice = self.gpu_choice();
        if let Some(name) = choice.unknown(&found).first() {
            let ids: Vec<_> = found.gpus.iter().map(|gpu| format!("{} ({})", gpu.id, gpu.info.pci)).collect();
            let ids = if ids.is_empty() { "none was found".to_owned() } else { ids.join(", ") };
            return Err(CliError::usage(format!("--exclude: no GPU is called '{name}' (GPUs: {ids})")));
        }
        Ok(choice.open(&found)?)
    }

    pub fn gpu_choice(&self) -> GpuChoice {
        GpuChoice { exclude: self.exclude.clone(), kernels: self.kernels.clone() }
    }
}

/// Which model, how large, and where.
#[derive(Args, Clone, Debug)]
pub struct ModelArgs {
    /// A GGUF file (any shard), a name in the model folder, or synth:SHAPE@QUANT (made, without a file)
    pub model: String,
    #[command(flatten)]
    pub size: SizeArgs,
    /// Placement, e.g. 'cpu0=embed,0-19; cpu1=20-29,head' [default: auto]
    #[arg(long)]
    pub place: Option<String>,
}

#[derive(Args, Clone, Debug)]
pub struct SizeArgs {
    /// Context length in tokens [default: the model's own, at most 8192]
    #[arg(long)]
    pub ctx: Option<u32>,
    /// Element type of the KV cache: f16, q8_0 or f32 [default: f16]
    #[arg(long)]
    pub kv: Option<KvType>,
}

impl SizeArgs {
    pub fn kv(&self) -> KvType {
        self.kv.unwrap_or(KvType::F16)
    }
}

impl ModelArgs {
    pub fn load_options(&self) -> Result<LoadOptions, CliError> {
        Ok(LoadOptions {
            path: models::resolve(&self.model)?,
            n_ctx: self.size.ctx,
            kv: self.size.kv(),
            placement: self.place.clone(),
        })
    }
}

/// How tokens are chosen.
#[derive(Args, Clone, Debug)]
pub struct SamplingArgs {
    /// Seed of the random numbers [default: a new one each time]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Temperature; 0 always takes the likeliest token [default: 0.8; demo: 0]
    #[arg(long, allow_negative_numbers = true)]
    pub temp: Option<f32>,
    /// Keep the k likeliest tokens; 0 keeps all [default: 40]
    #[arg(long)]
    pub top_k: Option<u32>,
    /// Keep the likeliest tokens whose probabilities reach this sum; 1 keeps all [default: 0.95]
    #[arg(long, allow_negative_numbers = true)]
    pub top_p: Option<f32>,
    /// Keep tokens at least this probable relative to the likeliest; 0 keeps all [default: 0.05]
    #[arg(long, allow_negative_numbers = true)]
    pub min_p: Option<f32>,
    /// Divide the logits of recent tokens by this; 1 is off [default: 1]
    #[arg(long, allow_negative_numbers = true)]
    pub repeat_penalty: Option<f32>,
}

impl SamplingArgs {
    /// What was asked for, over the sampler's defaults.
    pub fn settings(&self) -> Result<SamplerSettings, CliError> {
        self.over(SamplerSettings { seed: seed_from_time(), ..SamplerSettings::default() })
    }

    /// What was asked for, over `base`.
    pub fn over(&self, base: SamplerSettings) -> Result<SamplerSettings, CliError> {
        let settings = SamplerSettings {
            seed: self.seed.unwrap_or(base.seed),
            temperature: self.temp.unwrap_or(base.temperature),
            top_k: self.top_k.unwrap_or(base.top_k),
            top_p: self.top_p.unwrap_or(base.top_p),
            min_p: self.min_p.unwrap_or(base.min_p),
            repeat_penalty: self.repeat_penalty.unwrap_or(base.repeat_penalty),
            ..base
        };
        settings.validate().map_err(|e| CliError::usage(e.to_string()))?;
        Ok(settings)
    }
}

/// Another one each time.
pub fn seed_from_time() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| d.as_nanos() as u64)
}

fn parse_activations(text: &str) -> Result<ActivationFormat, String> {
    match text {
        "int8" => Ok(ActivationFormat::Int8),
        "f32" => Ok(ActivationFormat::F32),
        _ => Err(format!("'{text}' is not int8 or f32")),
    }
}

/// `1,2,3` or a JSON array.
pub fn parse_ids(text: &str) -> Result<Vec<u32>, String> {
    let inner = text.trim().trim_start_matches('[').trim_end_matches(']');
    inner
        .split(',')
        .map(str::trim)
        .filter(|t| !t.is_empty())
        .map(|t| t.parse().map_err(|_| format!("'{t}' is not a token id")))
        .collect()
}
