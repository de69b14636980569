//! Concurrent requests: in order, each with its own abort, and none that shows in another's answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use foretoken_engine::{
    AbortSignal, ChatCompletionRequest, CompletionRequest, Engine, MAX_WAITING, PrefixReuse,
};
use pollster::block_on;
use serde_json::{Value, json};

use crate::rig::{Random, complete, engine, engine_on, ids, speculative_options};
use crate::watched_ops::WatchedOps;

/// A task that is polled only when it was woken, so that a wake-up that is missing shows.
struct Task<'a, T> {
    future: Option<Pin<Box<dyn Future<Output = T> + 'a>>>,
    woken: Arc<Woken>,
    result: Option<T>,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<'a, T> Task<'a, T> {
    fn new(future: impl Future<Output = T> + 'a) -> Self {
        Self {
            future: Some(Box::pin(future)),
            woken: Arc::new(Woken(AtomicBool::new(true))),
            result: None,
        }
    }

    fn is_ready(&self) -> bool {
        self.future.is_some() && self.woken.0.load(Ordering::Relaxed)
    }

    fn poll(&mut self) {
        self.woken.0.store(false, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&self.woken));
        let future = self.future.as_mut().expect("it is not done");
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.result = Some(result);
            self.future = None;
        }
    }
}

/// Polls a random task that was woken; false if none was.
fn poll_any<T>(tasks: &mut [Task<'_, T>], random: &mut Random) -> bool {
    let ready: Vec<usize> = (0..tasks.len()).filter(|i| tasks[*i].is_ready()).collect();
    if ready.is_empty() {
        return false;
    }
    tasks[ready[random.below(ready.len())]].poll();
    true
}

fn finish<T>(tasks: &mut [Task<'_, T>], random: &mut Random) {
    while poll_any(tasks, random) {}
    assert!(
        tasks.iter().all(|task| task.future.is_none()),
        "a task that nobody woke"
    );
}

fn tokens(engine: &Engine<WatchedOps>, body: &Value) -> impl Future<Output = Vec<u64>> + use<> {
    let request = CompletionRequest::parse(body, &engine.limits()).unwrap();
    let mut generation = engine.complete(&request, AbortSignal::new()).unwrap();
    async move {
        let response = generation.response().await.unwrap();
        ids(&serde_json::to_value(response).unwrap()["choices"][0]["token_ids"])
    }
}

fn body(prompt: &[u32], max_tokens: usize) -> Value {
    json!({
        "prompt": prompt, "temperature": 0, "frequency_penalty": -2, "max_tokens": max_tokens,
        "ignore_eos": true, "return_token_ids": true,
    })
}

#[test]
fn cancelled_requests_leave_no_trace() {
    let mut random = Random(1);
    let prefix = random.tokens(32);
    let mut requests: Vec<Value> = (0..8)
        .map(|i| {
            let len = 1 + random.below(8);
            let tail = random.tokens(len);
            body(&[&prefix[..], &tail[..]].concat(), 3 + i % 3)
        })
        .collect();
    requests.push(body(&random.tokens(9), 5));
    let solo: Vec<Vec<u64>> = requests
        .iter()
        .map(|body| ids(&complete(&engine(), body).unwrap()["choices"][0]["token_ids"]))
        .collect();

    // Two engines go through it all: what one seed left behind would show in the next.
    let engines = [PrefixReuse::Exact, PrefixReuse::Full].map(|prefix_reuse| {
        let options = foretoken_engine::EngineOptions {
            prefix_reuse,
            ..speculative_options(3)
        };
        engine_on(WatchedOps::new(), options)
    });
    let mut cancelled_at_work = 0;
    for seed in 0..500 {
        let mut random = Random(seed);
        let engine = &engines[random.below(2)];
        let before = engine.metrics().requests;
        let mut tasks: Vec<_> = requests[..8]
            .iter()
            .map(|body| Task::new(tokens(engine, body)))
            .collect();
        let mut cancelled = Vec::new();
        for _ in 0..2 {
            for _ in 0..random.below(40) {
                poll_any(&mut tasks, &mut random);
            }
            // Any of them: done, at work within a step, or waiting.
            let victim = random.below(8);
            if tasks[victim].future.take().is_some() {
                let running = engine.with_ops(|_| ()).is_none();
                cancelled_at_work += usize::from(running);
                cancelled.push(victim);
            }
        }
        for victim in &cancelled {
            tasks.push(Task::new(tokens(engine, &requests[*victim])));
        }
        tasks.push(Task::new(tokens(engine, &requests[8])));
        finish(&mut tasks, &mut random);
        let again = cancelled.iter().copied().chain([8]);
        for (task, request) in tasks.iter().zip((0..8).chain(again)) {
            if let Some(found) = &task.result {
                assert_eq!(found, &solo[request], "seed {seed}, request {request}");
            } else {
                assert!(cancelled.contains(&request));
            }
        }
        let after = engine.metrics();
        assert_eq!(after.requests.abort - before.abort, cancelled.len() as u64);
        assert_eq!(
            (after.num_requests_running, after.num_requests_waiting),
            (0, 0)
        );
    }
    assert!(cancelled_at_work > 100, "{cancelled_at_work}");
}

#[test]
fn requests_that_are_not_awaited_take_turns() {
    let engine = engine_on(WatchedOps::new(), speculative_options(3));
    let bodies = [body(&[20, 21, 22], 5), body(&[30, 31], 7), body(&[40], 6)];
    let solo = bodies
        .each_ref()
        .map(|body| ids(&complete(&self::engine(), body).unwrap()["choices"][0]["token_ids"]));
    for seed in 0..20 {
        let mut random = Random(seed);
        let order = std::cell::RefCell::new(Vec::new());
        let mut tasks: Vec<_> = bodies
            .iter()
            .enumerate()
            .map(|(i, body)| {
                let mut request = body.clone();
                // The middle one streams.
                request["stream"] = json!(i == 1);
                let parsed = CompletionRequest::parse(&request, &engine.limits()).unwrap();
                let mut generation = engine.complete(&parsed, AbortSignal::new()).unwrap();
                let order = &order;
                Task::new(async move {
                    let mut found = Vec::new();
                    while let Some(chunk) = generation.next_chunk().await.unwrap() {
                        let chunk = serde_json::to_value(chunk).unwrap();
                        if let Some(choice) = chunk["choices"].get(0) {
                            order.borrow_mut().push(i);
                            found.extend(ids(&choice["token_ids"]));
                        }
                    }
                    found
                })
            })
            .collect();
        assert_eq!(engine.metrics().num_requests_waiting, 2);
        finish(&mut tasks, &mut random);
        for (task, solo) in tasks.iter().zip(&solo) {
            assert_eq!(task.result.as_ref(), Some(solo));
        }
        drop(tasks);
        assert!(
            order.borrow().is_sorted(),
            "in the order in which they came"
        );
    }
}

#[test]
fn each_request_has_its_own_abort() {
    let engine = engine_on(WatchedOps::new(), speculative_options(3));
    let solo =
        ids(&complete(&self::engine(), &body(&[20, 21], 9)).unwrap()["choices"][0]["token_ids"]);
    let request =
        |prompt: &[u32]| CompletionRequest::parse(&body(prompt, 9), &engine.limits()).unwrap();
    let aborts = [(); 3].map(|()| AbortSignal::new());
    let mut tasks: Vec<_> = aborts
        .iter()
        .map(|abort| {
            let mut generation = engine.complete(&request(&[20, 21]), abort.clone()).unwrap();
            Task::new(async move {
                let response = generation.response().await;
                response.map(|r| serde_json::to_value(r).unwrap())
            })
        })
        .collect();
    for _ in 0..4 {
        poll_any(&mut tasks, &mut Random(3));
    }
    // The second, which waits, goes; the first at work and the third do not notice.
    aborts[1].abort();
    tasks[1].poll();
    let gone = tasks[1]
        .result
        .take()
        .expect("it hears at once")
        .unwrap_err();
    assert!(gone.is_abort(), "{gone}");
    finish(&mut tasks, &mut Random(4));
    for task in [&tasks[0], &tasks[2]] {
        let response = task.result.as_ref().unwrap().as_ref().unwrap();
        assert_eq!(ids(&response["choices"][0]["token_ids"]), solo);
    }
    assert_eq!(engine.metrics().requests.abort, 1);
}

#[test]
fn a_dropped_request_stops_at_once() {
    let ops = WatchedOps::new();
    let passes = std::rc::Rc::clone(&ops.passes);
    let engine = engine_on(ops, speculative_options(3));
    let prompt: Vec<u32> = (20..60).collect();
    let solo =
        ids(&complete(&self::engine(), &body(&prompt, 9)).unwrap()["choices"][0]["token_ids"]);
    // Polls until it is dropped: waiting (0), in the prompt (1), in a decode step (more).
    for polls in 0..12 {
        let mut first = Task::new(tokens(&engine, &body(&[30, 31], 3)));
        let mut second = Task::new(tokens(&engine, &body(&prompt, 20)));
        let mut third = Task::new(tokens(&engine, &body(&prompt, 9)));
        second.poll();
        if polls > 0 {
            while first.is_ready() {
                first.poll();
            }
            for _ in 0..polls {
                second.poll();
            }
        }
        second.future = None;
        let left = passes.borrow().len();
        while first.is_ready() {
            first.poll();
        }
        if polls > 0 {
            assert_eq!(passes.borrow().len(), left, "nothing runs for who has left");
        }
        third.poll();
        while third.is_ready() {
            third.poll();
        }
        assert_eq!(third.result.as_ref(), Some(&solo), "{polls} polls");
    }
    assert_eq!(engine.metrics().requests.abort, 12, "counted as cancelled");
}

#[test]
fn an_abort_is_told_apart_and_keeps_what_there_is() {
    let engine = engine();
    let body =
        json!({"prompt": "The keeper", "temperature": 0, "max_tokens": 8, "ignore_eos": true});
    let whole = complete(&engine, &body).unwrap();
    let request = CompletionRequest::parse(&body, &engine.limits()).unwrap();
    let abort = AbortSignal::new();
    let mut generation = engine.complete(&request, abort.clone()).unwrap();
    for _ in 0..3 {
        block_on(generation.next_piece()).unwrap();
    }
    abort.abort();
    assert!(block_on(generation.next_piece()).unwrap_err().is_abort());
    let so_far = serde_json::to_value(generation.so_far()).unwrap();
    assert_eq!(so_far["choices"][0]["finish_reason"], "abort");
    assert_eq!(so_far["usage"]["completion_tokens"], 3);
    let text = so_far["choices"][0]["text"].as_str().unwrap();
    assert!(
        whole["choices"][0]["text"]
            .as_str()
            .unwrap()
            .starts_with(text)
    );
    // It has given its turn up already.
    assert_eq!(
        complete(&engine, &body).unwrap()["choices"],
        whole["choices"]
    );
    assert!(block_on(generation.next_piece()).unwrap().is_none());
}

#[test]
fn a_step_that_was_given_up_ends_its_request() {
    let engine = engine_on(WatchedOps::new(), speculative_options(3));
    let request = CompletionRequest::parse(&body(&[20, 21], 9), &engine.limits()).unwrap();
    let mut generation = engine.complete(&request, AbortSignal::new()).unwrap();
    block_on(generation.next_piece()).unwrap();
    {
        let mut step = Task::new(generation.next_piece());
        step.poll();
        assert!(step.result.is_none(), "it waits for the device");
    }
    assert!(block_on(generation.next_piece()).unwrap_err().is_abort());
    complete(&engine, &body(&[20, 21], 9)).unwrap();
}

#[test]
fn so_many_wait_and_then_it_is_busy() {
    let engine = engine();
    let request = CompletionRequest::parse(&body(&[20, 21], 2), &engine.limits()).unwrap();
    let join = || engine.complete(&request, AbortSignal::new());
    let mut places: Vec<_> = (0..=MAX_WAITING).map(|_| join().unwrap()).collect();
    let metrics = engine.metrics();
    assert_eq!(
        (metrics.num_requests_running, metrics.num_requests_waiting),
        (1, 32)
    );
    let refused = join().unwrap_err();
    assert_eq!(refused.code(), "busy");
    assert!(!refused.is_request_error(), "it may be asked again");
    let body = json!({"messages": [{"role": "user", "content": "x"}]});
    let chat = ChatCompletionRequest::parse(&body, &engine.limits()).unwrap();
    assert_eq!(
        engine.chat(&chat, AbortSignal::new()).unwrap_err().code(),
        "busy"
    );
    // One that leaves makes room for one.
    places.remove(7);
    places.push(join().unwrap());
    assert_eq!(join().unwrap_err().code(), "busy");
    for mut place in places {
        block_on(place.response()).unwrap();
    }
    // A request that is refused later has no place.
    let long = json!({"prompt": vec![5; 64]});
    for _ in 0..100 {
        assert_eq!(
            complete(&engine, &long).unwrap_err().code(),
            "context_length_exceeded"
        );
    }
}

#[test]
fn idle_work_makes_way() {
    let ops = WatchedOps::new();
    let passes = std::rc::Rc::clone(&ops.passes);
    let engine = engine_on(ops, speculative_options(3));
    let prompt: Vec<u32> = (20..50).collect();
    let solo =
        ids(&complete(&self::engine(), &body(&prompt, 20)).unwrap()["choices"][0]["token_ids"]);
    for cut in [false, true] {
        block_on(tokens(&engine, &body(&prompt, 20)));
        passes.take();
        let mut idle = Task::new(engine.idle());
        idle.poll();
        assert_eq!(passes.borrow().len(), 1, "it began");
        let mut request = Task::new(tokens(&engine, &body(&prompt, 20)));
        request.poll();
        assert!(!request.is_ready(), "it waits for the pass under way");
        if cut {
            idle.future = None;
        } else {
            while idle.is_ready() {
                idle.poll();
            }
        }
        while request.is_ready() {
            request.poll();
        }
        assert_eq!(request.result.as_ref(), Some(&solo));
        assert!(
            engine.metrics().requests.abort == 0,
            "idle work is no request"
        );
    }
}
