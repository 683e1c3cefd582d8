//! Frames of the main screen, and what a token costs from its message to its picture.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use layercake::ui::scenes::{PARAGRAPH, Setup, Stage, conversation_of};

const SIZES: [(u16, u16); 2] = [(120, 40), (200, 60)];
const N_TOKENS: usize = 50_000;

fn setup(size: (u16, u16)) -> Setup {
    Setup::new("dark", size)
}

/// The main screen: 60 layers over 4 devices, a short conversation.
fn main_screen(c: &mut Criterion) {
    for size in SIZES {
        let mut stage = conversation_of(setup(size), 500, 4);
        stage.draw();
        c.bench_function(&format!("frame, main screen {}x{}", size.0, size.1), |b| b.iter(|| stage.draw_once()));
    }
}

fn long_conversation(c: &mut Criterion) {
    for size in SIZES {
        let name = |what: &str| format!("{what} {}x{}", size.0, size.1);
        let mut stage = conversation_of(setup(size), N_TOKENS, 200);
        c.bench_function(&name("50,000 tokens in 200 messages: first layout"), |b| {
            b.iter(|| {
                stage.forget_layout();
                stage.draw_once();
            });
        });
        c.bench_function(&name("50,000 tokens in 200 messages: frame, following"), |b| b.iter(|| stage.draw_once()));
        stage.keys("alt+c home pagedown");
        c.bench_function(&name("50,000 tokens in 200 messages: frame, scrolled up"), |b| b.iter(|| stage.draw_once()));
        stage.keys("end alt+i");
        c.bench_function(&name("50,000 tokens in 200 messages: a typed character"), |b| {
            b.iter(|| {
                stage.type_text("x");
                stage.draw_once();
            });
        });
    }
}

/// At 200 tokens a second and a frame every 25 ms.
const TOKENS_PER_FRAME: usize = 5;

fn stream<'a>(stage: &mut Stage, tokens: &mut impl Iterator<Item = &'a str>) {
    for token in tokens.take(TOKENS_PER_FRAME) {
        stage.after_ms(5);
        stage.token(token);
    }
    stage.draw_once();
}

/// Five tokens and their frame, again and again, so that the answer grows: a batch is 600 tokens in 120 frames.
fn streaming(c: &mut Criterion) {
    let mut group = c.benchmark_group("streaming 600 tokens in 120 frames, 120x40");
    group.sample_size(10);
    let streaming_stage = |n_tokens, n_messages, answer: usize| {
        let mut stage = conversation_of(setup(SIZES[0]), n_tokens, n_messages);
        stage.ask("Go on.");
        stage.prefill(8);
        // What the answer has already.
        for _ in 0..answer {
            stage.token(PARAGRAPH);
        }
        stage.draw_once();
        stage
    };
    let mut measured = |name: &str, n_tokens, n_messages, answer| {
        group.bench_function(name, |b| {
            b.iter_batched_ref(
                || streaming_stage(n_tokens, n_messages, answer),
                |stage| {
                    let mut tokens = PARAGRAPH.split_inclusive(' ').cycle();
                    (0..120).for_each(|_| stream(stage, &mut tokens));
                },
                BatchSize::PerIteration,
            );
        });
    };
    measured("into an empty conversation", 100, 2, 0);
    measured("at the end of 50,000 tokens in 200 messages", N_TOKENS, 200, 0);
    measured("at the end of one message of 50,000 tokens", 100, 2, N_TOKENS / 130);
    group.finish();
}

criterion_group!(benches, main_screen, long_conversation, streaming);
criterion_main!(benches);
