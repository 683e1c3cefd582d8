//! The real binary: data on stdout, words on stderr, exit codes 0, 1 and 2.

mod common;

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use common::{golden, golden_f32, golden_json, ids, nmse, smollm2};
use serde_json::Value;

fn layercake(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_layercake"));
    command.args(args).stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    layercake(args).output().unwrap()
}

/// stdout of a command that must succeed.
fn ok(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn ok_json(args: &[&str]) -> Value {
    serde_json::from_str(&ok(args)).unwrap()
}

fn with_stdin(args: &[&str], input: &[u8]) -> Output {
    let mut child =
        layercake(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// A command that must fail with this code and one line that holds these words.
fn fails(args: &[&str], code: i32, words: &[&str]) {
    let output = run(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{args:?}: stdout is for data");
    words.iter().for_each(|w| assert!(stderr.contains(w), "{args:?}: '{w}' is not in: {stderr}"));
    if code == 1 {
        assert_eq!(stderr.lines().filter(|l| l.starts_with("error: ")).count(), 1, "{stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn id_list(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

#[test]
fn run_gives_the_golden_answer_as_json() {
    let manifest = golden_json("models/llama.json");
    let prompt = ids(&manifest["golden"]["prompt"]);
    let model = golden("models/llama.gguf");
    let list = id_list(&prompt);
    let args = ["run", text(&model), "--ids", &list, "--kv", "f32", "--temp", "0", "-n", "16", "--json"];
    let object = ok_json(&args);
    assert_eq!(ids(&object["prompt_ids"]), prompt);
    assert_eq!(ids(&object["ids"]), ids(&manifest["golden"]["greedy_ids"]));
    assert_eq!(object["stop"], "max_tokens");
    let timings = &object["timings"];
    assert_eq!(timings["prefill_tokens"], 40);
    assert_eq!(timings["decode_tokens"], 15);
    assert!(timings["prefill_ms"].as_f64().unwrap() > 0.0 && timings["hops_ms"].as_f64().is_some());
    assert_eq!(timings["devices"][0]["id"], "cpu0");
    assert!(timings["devices"][0]["busy_ms"].as_f64().unwrap() > 0.0);

    let moved = [&args[..], &["--cpu-devices", "2", "--repartition", "cpu1=1,head", "--at", "3", "--now"]].concat();
    let object = ok_json(&moved);
    assert_eq!(ids(&object["ids"]), ids(&manifest["golden"]["greedy_ids"]), "a move changes no token");
    let states = object["repartition"].as_array().unwrap();
    assert_eq!(states.last().unwrap()["state"], "switched");
    assert_eq!(states.last().unwrap()["placement"], "cpu0=embed,0; cpu1=1,head");
}

#[test]
fn run_answers_a_question_from_each_source() {
    let model = smollm2();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prompt.txt");
    std::fs::write(&file, "What is the capital of France?").unwrap();
    let question = ["run", text(&model), "--temp", "0", "-n", "12", "--ctx", "512"];
    let by_flag = ok(&[&question[..], &["-p", "What is the capital of France?"]].concat());
    let by_file = ok(&[&question[..], &["-f", text(&file)]].concat());
    let by_stdin = with_stdin(&question, b"What is the capital of France?");
    assert_eq!(by_flag, by_file);
    assert_eq!(by_flag.as_bytes(), by_stdin.stdout);
    assert!(by_flag.len() > 10);
    let stderr = String::from_utf8_lossy(&by_stdin.stderr);
    assert!(stderr.contains("tok/s"), "figures go to stderr: {stderr}");

    let json = ok_json(&[&question[..], &["-p", "What is the capital of France?", "--json"]].concat());
    let golden = golden_json("smollm2/smollm2.json");
    assert_eq!(ids(&json["prompt_ids"]), ids(&golden["prompts"][0]["ids"]));
    assert_eq!(format!("{}\n", json["text"].as_str().unwrap()), by_flag);
}

#[test]
fn same_seed_same_text() {
    let model = smollm2();
    let seeded = |seed: &str| {
        ok(&["run", text(&model), "-p", "Tell me a story.", "-n", "24", "--seed", seed, "--temp", "1", "--ctx", "512"])
    };
    assert_eq!(seeded("7"), seeded("7"));
    assert_ne!(seeded("7"), seeded("8"));
}

#[test]
fn a_full_context_is_a_stop_reason() {
    let model = golden("models/llama.gguf");
    let object = ok_json(&["run", text(&model), "--ids", "1,2,3,4", "--ctx", "16", "--temp", "0", "--json"]);
    // 16 positions hold the prompt and 12 tokens; one more comes from the last position's logits.
    assert!(object["stop"] == "context" || object["stop"] == "eog", "{object}");
    if object["stop"] == "context" {
        assert_eq!(object["ids"].as_array().unwrap().len(), 13);
    }
    fails(&["run", text(&model), "--ids", "1,2,3,4", "--ctx", "3"], 1, &["4 tokens", "3", "--ctx"]);
}

#[test]
fn failures_are_one_line_and_usage_is_code_2() {
    let model = golden("models/llama.gguf");
    let model = text(&model);
    fails(&["run", "no-such-model", "-p", "x"], 1, &["no-such-model"]);
    fails(&["run", model, "--ids", "1,2,x"], 2, &["'x'"]);
    fails(&["run", model, "--ids", "1,99999"], 1, &["99999", "320"]);
    fails(&["run", model, "-p", "x", "--place", "cpu0=0-7"], 1, &["character", "7"]);
    fails(&["run", model, "-p", "x", "--temp", "-1"], 2, &["temp"]);
    fails(&["run", model, "-p", "x", "--kv", "q4"], 2, &["q8_0"]);
    fails(&["run", model, "-p", "x", "--ctx", "0"], 1, &["context"]);
    fails(&["run", model], 1, &["empty"]);
    fails(&["bench", model, "--repartition", "cpu0=all"], 2, &["=>"]);
    fails(&["nonsense"], 2, &["nonsense"]);
    fails(&["run"], 2, &["MODEL"]);
    let unknown = golden("models/starcoder2.gguf");
    fails(&["run", text(&unknown), "-p", "x"], 1, &["starcoder2", "qwen3moe"]);
    let unsupported = golden("quant/llama256-IQ2_S.gguf");
    fails(&["run", text(&unsupported), "-p", "x"], 1, &["IQ", "not supported", "Q4_K"]);
}

#[test]
fn tokenize_both_ways() {
    let model = golden("tokenizers/vocab-smollm2.gguf");
    let extra = golden_json("tokenizers/smollm2.extra.json");
    for case in extra["cases"].as_array().unwrap().iter().step_by(7) {
        let input = case["text"].as_str().unwrap();
        for (flags, key) in [
            (&["--no-special", "--no-parse-special"][..], "plain"),
            (&["--no-special"][..], "parse_special"),
            (&["--no-parse-special"][..], "add_special"),
            (&[][..], "both"),
        ] {
            let output = with_stdin(&[&["tokenize", text(&model)], flags].concat(), input.as_bytes());
            let actual: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(actual, case[key], "{input:?} {key}");
        }
        let plain = serde_json::to_string(&case["plain"]).unwrap();
        let output = with_stdin(&["tokenize", text(&model), "--decode"], plain.as_bytes());
        assert_eq!(String::from_utf8_lossy(&output.stdout), input);
    }
    let bad = with_stdin(&["tokenize", text(&model)], b"\xff\xfe");
    assert_eq!(bad.status.code(), Some(1));
}

#[test]
fn template_renders_a_golden_case() {
    let folder = tempfile::tempdir().unwrap();
    let golden = golden_json("templates/Qwen-Qwen2.5-7B-Instruct.json");
    let conversations = golden_json("templates/_conversations.json");
    let case = golden["cases"]
        .as_array()
        .unwrap()
        .iter()
        .find(|c| {
            c["expected"].is_string() && c["tools"].is_null() && c["kwargs"].as_object().is_none_or(|k| k.is_empty())
        })
        .unwrap();
    let name = case["conversation"].as_str().unwrap();
    let messages = conversations.get(name).or_else(|| conversations["conversations"].get(name)).unwrap();
    let (jinja, file) = (folder.path().join("t.jinja"), folder.path().join("m.json"));
    std::fs::write(&jinja, golden["template"].as_str().unwrap()).unwrap();
    std::fs::write(&file, messages.to_string()).unwrap();
    let mut args = vec!["template", "--jinja", text(&jinja), "--messages", text(&file), "--now", "2026-01-15T12:00"];
    if case["add_generation_prompt"] == false {
        args.push("--no-generation-prompt");
    }
    assert_eq!(ok(&args), case["expected"].as_str().unwrap());
    fails(&["template", "--messages", text(&file)], 2, &["--jinja"]);
}

#[test]
fn logits_are_the_golden_ones() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("logits.f32");
    let model = golden("models/qwen2.gguf");
    let list = id_list(&ids(&golden_json("models/qwen2.json")["golden"]["prompt"]));
    let read = || -> Vec<f32> {
        let bytes = std::fs::read(&out).unwrap();
        bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    };
    let args = ["logits", text(&model), "--ids", &list, "--out", text(&out), "--kv", "f32"];
    assert_eq!(ok(&args), "");
    let expected = golden_f32("models/qwen2.logits.f32");
    assert!(nmse(&read(), &expected) < 1e-9);
    ok(&[&args[..], &["--last"]].concat());
    assert!(nmse(&read(), &expected[expected.len() - 320..]) < 1e-9);
}

#[test]
fn inspect_devices_and_plan_as_json() {
    let model = golden("models/qwen3moe.gguf");
    let object = ok_json(&["inspect", text(&model), "--json", "--tensors"]);
    assert_eq!(object["metadata"]["general.architecture"], "qwen3moe");
    assert_eq!(object["metadata"]["qwen3moe.expert_count"], 8);
    assert!(object["tensors"].as_array().unwrap().iter().any(|t| t["name"] == "blk.0.ffn_gate_exps.weight"));
    assert!(ok(&["inspect", text(&smollm2()), "--template"]).contains("<|im_start|>"));

    let devices = ok_json(&["devices", "--json", "--cpu-devices", "2"]);
    assert_eq!(devices[1]["id"], "cpu1");
    assert_eq!(devices[0]["simulated"], false);
    assert!(devices[0]["total_bytes"].as_u64().unwrap() > 1 << 28);

    let plan =
        ok_json(&["plan", text(&model), "--json", "--place", "cpu0=embed,0-1; cpu1=2,head", "--cpu-devices", "2"]);
    assert_eq!(plan["fits"], true);
    assert_eq!(plan["placement"], "cpu0=embed,0-1; cpu1=2,head");
    assert!(plan["devices"][1]["weights_bytes"].as_u64().unwrap() > 0);

    let folder = tempfile::tempdir().unwrap();
    let rig = folder.path().join("rig.toml");
    std::fs::write(
        &rig,
        "[[device]]\nname = \"Tiny\"\nvendor = \"nvidia\"\nmemory = \"1 MiB\"\n\
         [[device]]\nname = \"Card\"\nvendor = \"amd\"\nmemory = \"1 GiB\"\n",
    )
    .unwrap();
    let devices = ok_json(&["devices", "--json", "--rig", text(&rig)]);
    assert_eq!((&devices[0]["id"], &devices[0]["simulated"]), (&"cuda0".into(), &true.into()));
    assert!(ok(&["devices", "--rig", text(&rig)]).contains("SIM Tiny"));
    let output = run(&["plan", text(&model), "--rig", text(&rig), "--place", "cuda0=all"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cuda0"));
    assert!(String::from_utf8_lossy(&output.stdout).contains("short"));
}

/// A command for a user whose home is this folder.
fn at_home(home: &Path, args: &[&str]) -> Command {
    let mut command = layercake(args);
    for variable in [
        "XDG_CACHE_HOME",
        "XDG_DATA_HOME",
        "HF_HOME",
        "HF_HUB_CACHE",
        "HUGGINGFACE_HUB_CACHE",
        "OLLAMA_MODELS",
        "LLAMA_CACHE",
    ] {
        command.env_remove(variable);
    }
    command.env("HOME", home).env("LAYERCAKE_MODELS", home.join("shelf")).current_dir(home);
    command
}

#[test]
fn models_of_other_programs_are_listed_and_found_by_name() {
    let home = tempfile::tempdir().unwrap();
    let put = |below: &str, golden_file: &str| {
        let path = home.path().join(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::copy(golden(golden_file), path).unwrap();
    };
    let listed = || -> Vec<Value> {
        let output = at_home(home.path(), &["models", "--json"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let list: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        // The system may have models too.
        let in_home = |entry: &Value| Path::new(entry["path"].as_str().unwrap()).starts_with(home.path());
        list.into_iter().filter(in_home).collect()
    };
    assert_eq!(listed(), Vec::<Value>::new());

    let digest = "0123456789abcdef".repeat(4);
    put("shelf/tiny.gguf", "models/llama.gguf");
    put(".cache/huggingface/hub/models--ada--code/snapshots/1/code.gguf", "models/starcoder2.gguf");
    put(&format!(".ollama/models/blobs/sha256-{digest}"), "models/qwen3moe.gguf");
    let manifest = home.path().join(".ollama/models/manifests/registry.ollama.ai/library/llama3/latest");
    std::fs::create_dir_all(manifest.parent().unwrap()).unwrap();
    let layer =
        serde_json::json!({"mediaType": "application/vnd.ollama.image.model", "digest": format!("sha256:{digest}")});
    std::fs::write(manifest, serde_json::json!({ "layers": [layer] }).to_string()).unwrap();
    std::fs::write(home.path().join("broken.gguf"), "GGUF").unwrap();

    let list = listed();
    let figures: Vec<_> = list
        .iter()
        .map(|e| {
            [&e["name"], &e["origin"], &e["facts"]["arch"], &e["verdict"]["is"]].map(|v| v.as_str().unwrap_or("-"))
        })
        .collect();
    assert_eq!(
        figures,
        [
            ["tiny", "model_folder", "llama", "fits"],
            ["ada/code: code", "hugging_face", "starcoder2", "unsupported"],
            ["llama3:latest", "ollama", "qwen3moe", "fits"],
            ["broken", "current_folder", "-", "unreadable"],
        ]
    );
    assert_eq!(list[2]["facts"]["n_expert"], 8);
    assert_eq!(list[2]["verdict"]["devices"][0], "cpu0");

    let output = at_home(home.path(), &["models"]).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains("llama3:latest") && stdout.contains("fits on cpu0"), "{stdout}");
    assert!(stderr.contains("ada/code: code: architecture 'starcoder2' is not supported"), "{stderr}");

    let args = ["run", "llama3", "--ids", "1,2,3", "-n", "2", "--temp", "0", "--json"];
    let output = at_home(home.path(), &args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = at_home(home.path(), &["run", "no-such", "-p", "x"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("has tiny; all ") && stderr.contains("`layercake models`"), "{stderr}");
}

#[test]
fn synth_writes_a_model_that_runs_and_benches() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    ok(&["synth", "tiny-llama", text(&path), "--quant", "Q4_K_M", "--seed", "1"]);
    let object = ok_json(&["run", text(&path), "--ids", "1,2,3", "-n", "4", "--temp", "0", "--json"]);
    assert!(!object["ids"].as_array().unwrap().is_empty());
    let bench = ok_json(&[
        "bench",
        text(&path),
        "-p",
        "32",
        "-n",
        "8",
        "-d",
        "0,16",
        "-r",
        "2",
        "--json",
        "--cpu-devices",
        "2",
        "--place",
        "cpu0=all",
        "--repartition",
        "cpu0=all => cpu1=0,head",
    ]);
    let tests: Vec<_> = bench["results"].as_array().unwrap().iter().map(|r| r["test"].as_str().unwrap()).collect();
    assert_eq!(tests, ["pp32", "tg8", "pp32 @ d16", "tg8 @ d16"]);
    assert!(bench["results"].as_array().unwrap().iter().all(|r| r["tokens_per_s"].as_f64().unwrap() > 0.0));
    let change = &bench["repartitions"][0];
    assert!(change["weight_bytes"].as_u64().unwrap() > 0 && change["kv_bytes"].as_u64().unwrap() > 0);
    assert!(ok(&["bench", text(&path), "-p", "16", "-n", "4", "-r", "1", "--csv"]).starts_with("model,placement,test"));
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn ctrl_c_ends_cleanly_and_keeps_the_text() {
    let model = smollm2();
    let args = ["run", text(&model), "-p", "Write a very long story about a ship.", "--temp", "0", "--ctx", "2048"];
    let mut child = layercake(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 20];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.ends_with(b"\n"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("stopped"), "{stderr}");
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let model = golden("models/llama.gguf");
    let script = format!("'{}' inspect '{}' | head -c 1", env!("CARGO_BIN_EXE_layercake"), text(&model));
    let output = Command::new("bash").args(["-o", "pipefail", "-c", &script]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn chat_keeps_the_conversation_and_moves_layers() {
    let model = smollm2();
    let input = b"My name is Ada.\n/where\n/move cpu1=20-29\nWhat is my name?\n/where\n/now cpu9=1\n/nonsense\n/quit\n";
    let args = ["chat", text(&model), "--cpu-devices", "2", "--temp", "0", "-n", "24", "--ctx", "1024"];
    let output = with_stdin(&args, input);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("now cpu0=embed,0-19,head; cpu1=20-29"), "{stderr}");
    assert!(stderr.contains("not possible") && stderr.contains("cpu9"), "{stderr}");
    assert!(stderr.contains("no command /nonsense"), "{stderr}");
    assert!(String::from_utf8_lossy(&output.stdout).lines().count() >= 2);
}

/// The demo's own defaults: exact activations and the likeliest token give the model's golden answer.
#[test]
fn demo_answers_a_question() {
    smollm2();
    let output = with_stdin(&["demo", "--ctx", "1024", "-n", "60"], b"What is the capital of France?\n");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    assert!(stdout.contains("The capital of France is Paris."), "{stdout}");
}

/// `layercake config` with this file.
fn config(file: &Path, args: &[&str]) -> Output {
    let args = [&["config"], args].concat();
    let mut command = layercake(&args);
    command.env("LAYERCAKE_CONFIG", file).env_remove("VISUAL").env("EDITOR", "vi -e").output().unwrap()
}

#[test]
fn config_says_where_it_lies_and_what_holds() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    let stdout = |output: &Output| String::from_utf8(output.stdout.clone()).unwrap();
    let stderr = |output: &Output| String::from_utf8(output.stderr.clone()).unwrap();

    let missing = config(&file, &[]);
    assert!(missing.status.success());
    assert!(stderr(&missing).contains(&format!("{} (not there: these are the defaults)", text(&file))));
    let defaults: toml::Table = stdout(&missing).parse().unwrap();
    assert_eq!((defaults["theme"].as_str(), defaults["editor"].as_str()), (Some("dark"), Some("vi -e")));
    assert_eq!(stdout(&config(&file, &["--path"])), format!("{}\n", text(&file)));

    std::fs::write(&file, "ctx = 512\nmouze = false\nkv = \"q8\"\n[sampling]\ntemperature = 0.25\n").unwrap();
    let output = config(&file, &[]);
    assert!(output.status.success(), "a wrong key stops nothing");
    let words = stderr(&output);
    assert!(words.contains("warning: line 2: unknown key 'mouze': did you mean 'mouse'?\n"), "{words}");
    assert!(words.contains("warning: line 3: kv is \"q8\": give "), "{words}");
    assert!(words.starts_with(&format!("{}\n", text(&file))), "{words}");
    let effective: toml::Table = stdout(&output).parse().unwrap();
    assert_eq!(effective["ctx"].as_integer(), Some(512));
    assert_eq!(effective["sampling"]["temperature"].as_float(), Some(0.25));
    let json: Value = serde_json::from_str(&stdout(&config(&file, &["--json"]))).unwrap();
    assert_eq!((&json["ctx"], &json["threads"], &json["kv"]), (&512.into(), &Value::Null, &"f16".into()));

    std::fs::write(&file, "ctx = 512\nkv = \n").unwrap();
    let broken = config(&file, &[]);
    assert_eq!((broken.status.code(), stdout(&broken).as_str()), (Some(1), ""));
    let words = stderr(&broken);
    assert!(words.starts_with("error: ") && words.contains("config.toml, line 2: ") && words.lines().count() == 1);
    assert!(config(&file, &["--path"]).status.success(), "where it lies can be told still");
}
