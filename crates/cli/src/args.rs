//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Runs language models on your GPU through WebGPU kernels.
#[derive(Debug, Parser)]
#[command(name = "foretoken", version, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// One answer for PROMPT (or for piped input); without either, an interactive chat
    Chat(ChatArgs),
    /// Continues a text, without a chat template
    Complete(CompleteArgs),
    /// Measures prefill and decoding, and counts what a token costs
    Bench(BenchArgs),
    /// Shows what a model file holds, and whether and how it would run here
    Inspect(InspectArgs),
    /// Lists adapters, their limits and features, the one that would be taken first
    Devices(DevicesArgs),
}

impl Command {
    /// Whether stdout is for one JSON object and nothing else.
    pub fn json(&self) -> bool {
        match self {
            Command::Chat(args) => args.generate.json,
            Command::Complete(args) => args.generate.json,
            Command::Bench(args) => args.json,
            Command::Inspect(args) => args.json,
            Command::Devices(args) => args.json,
        }
    }
}

/// Which model, and where it runs.
#[derive(Debug, Clone, Args)]
pub struct ModelArgs {
    /// A .gguf file, or the alias of one in the models folder ($FORETOKEN_MODELS, by default
    /// ~/.cache/foretoken/models)
    #[arg(long, value_name = "PATH|ALIAS", default_value = "smollm2-135m")]
    pub model: String,

    /// KV capacity in tokens [default: the smaller of the model's and 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub context_length: Option<u32>,

    /// The adapter, by its index or a part of its name as `foretoken devices` lists them; `cpu` is the
    /// reference, plain f32 without a GPU [default: the fastest]
    #[arg(long, value_name = "INDEX|NAME")]
    pub device: Option<String>,

    /// Holds the engine to fewer device features than it has: base, f16, subgroup, subgroup-f16
    /// [default: all the device has]
    #[arg(long, value_name = "TIER")]
    pub tier: Option<String>,

    /// Agrees to what set-up asks. The binary itself installs nothing and never asks: it takes the
    /// option so that scripts can pass it everywhere
    #[arg(long)]
    pub yes: bool,
}

/// How an answer is made and shown.
#[derive(Debug, Clone, Args)]
pub struct GenerateArgs {
    /// The most tokens to generate [default: to the context's end]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_tokens: Option<u32>,

    /// Only 0, which is greedy decoding: sampling is not built yet
    #[arg(long, value_name = "T", default_value = "0", value_parser = temperature)]
    pub temperature: f64,

    /// Ends the answer where this text would come; up to four times
    #[arg(long, value_name = "TEXT")]
    pub stop: Vec<String>,

    /// Prints the response object and nothing else on stdout
    #[arg(long)]
    pub json: bool,

    /// With --json: one chunk object a line, as they come. (Text always comes as it is made)
    #[arg(long)]
    pub stream: bool,

    /// With --json: adds choices[].token_ids and prompt_token_ids
    #[arg(long)]
    pub return_token_ids: bool,
}

/// `foretoken chat`.
#[derive(Debug, Clone, Args)]
pub struct ChatArgs {
    /// What to say
    pub prompt: Option<String>,

    /// A system message in front
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,

    /// A JSON file with a list of messages, instead of PROMPT
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    pub messages: Option<PathBuf>,

    /// Which model, and where.
    #[command(flatten)]
    pub model: ModelArgs,

    /// How.
    #[command(flatten)]
    pub generate: GenerateArgs,
}

/// `foretoken complete`.
#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("text").required(true))]
pub struct CompleteArgs {
    /// The text to continue
    #[arg(long, value_name = "TEXT", group = "text")]
    pub prompt: Option<String>,

    /// A file with the text to continue
    #[arg(long, value_name = "FILE", group = "text")]
    pub prompt_file: Option<PathBuf>,

    /// Which model, and where.
    #[command(flatten)]
    pub model: ModelArgs,

    /// How.
    #[command(flatten)]
    pub generate: GenerateArgs,
}

/// `foretoken bench`.
#[derive(Debug, Clone, Args)]
pub struct BenchArgs {
    /// Which model, and where.
    #[command(flatten)]
    pub model: ModelArgs,

    /// Prints one JSON object and nothing else on stdout
    #[arg(long)]
    pub json: bool,
}

/// `foretoken inspect`.
#[derive(Debug, Clone, Args)]
pub struct InspectArgs {
    /// A .gguf file or an alias
    #[arg(value_name = "MODEL")]
    pub model: String,

    /// Prints one JSON object and nothing else on stdout
    #[arg(long)]
    pub json: bool,
}

/// `foretoken devices`.
#[derive(Debug, Clone, Args)]
pub struct DevicesArgs {
    /// Prints one JSON object and nothing else on stdout
    #[arg(long)]
    pub json: bool,
}

/// The one temperature there is.
fn temperature(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(0.0) => Ok(0.0),
        Ok(value) if (0.0..=2.0).contains(&value) => {
            Err("sampling is not built yet: pass --temperature 0".to_owned())
        }
        _ => Err("a temperature is a number within 0..=2".to_owned()),
    }
}
