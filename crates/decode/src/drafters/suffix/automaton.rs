//! How often every short run of tokens occurs in some texts, and what follows it: a suffix automaton with counts.
//!
//! A **state** stands for all runs of tokens that end at the same places of the texts, and so occur equally often: a run
//! and those of its suffixes that never occur without it. The rest of its suffixes, which occur elsewhere too, are in
//! the state its **link** leads to, and so on down to the root, the empty run: the links from a text's end visit all
//! its suffixes, longest first. An **edge** leads from a state to that of its runs with one token behind. Texts of n
//! tokens have at most 2n states and 3n edges whatever they repeat, and a token is appended in amortised constant time
//! (Blumer et al.: *The smallest automaton recognizing the subwords of a text*, 1985).
//!
//! Added here: each state counts its occurrences, and knows which of its edges is taken most often. A token
//! appended is one more occurrence of each of the text's suffixes, so only runs of up to `depth` tokens are counted, and
//! that costs a walk over at most `depth` links. Texts can be forgotten again: their counts are taken back,
//! their states stay until whoever owns the automaton builds it anew.

use std::collections::HashMap;

use foretoken_core::TokenId;

/// The empty run.
const ROOT: u32 = 0;
/// No edge, or not known which.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct State {
    /// Tokens of its longest run. Its shortest is one token longer than the longest of its link.
    len: u32,
    link: u32,
    /// Occurrences, where its shortest run has at most `depth` tokens.
    count: u32,
    /// When it occurred last, in tokens appended to any text.
    last: u32,
    /// The edge taken most often, of several such the one taken last; `NONE` until somebody asks, after texts were
    /// forgotten.
    best: u32,
    /// Its edge made last; the others hang on it.
    edges: u32,
}

#[derive(Debug, Clone, Copy)]
struct Edge {
    token: TokenId,
    target: u32,
    next: u32,
}

/// A run of tokens within the automaton.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    state: u32,
    /// Its tokens.
    pub(super) len: usize,
}

const EMPTY: Run = Run {
    state: ROOT,
    len: 0,
};

/// What follows a run, by its counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Continuation {
    pub(super) token: TokenId,
    /// The share of the run's occurrences that the token followed.
    pub(super) share: f32,
    /// The run with the token behind.
    run: Run,
}

/// The runs of up to `depth` tokens of some texts.
///
/// Memory: at most 2 states of 24 bytes, 3 edges of 12 and 3 entries of the index a token, and as much again while they
/// grow: under 300 bytes. Natural text takes about 165.
#[derive(Debug)]
pub(super) struct SuffixAutomaton {
    depth: usize,
    states: Vec<State>,
    edges: Vec<Edge>,
    /// State and token → edge.
    index: HashMap<u64, u32>,
    /// The state of the whole text that is being appended to.
    whole: u32,
    /// The longest of its suffixes that are shorter than `depth`.
    end: Run,
    /// Tokens appended so far.
    time: u32,
    /// States and edges looked at: what the tests count.
    #[cfg(test)]
    pub(super) work: std::cell::Cell<usize>,
}

impl SuffixAutomaton {
    /// No text. `depth`: tokens of the longest run that is counted, at least 1.
    pub(super) fn new(depth: usize) -> Self {
        let root = State {
            len: 0,
            link: ROOT,
            count: 0,
            last: 0,
            best: NONE,
            edges: NONE,
        };
        Self {
            depth,
            states: vec![root],
            edges: Vec::new(),
            index: HashMap::new(),
            whole: ROOT,
            end: EMPTY,
            time: 0,
            #[cfg(test)]
            work: Default::default(),
        }
    }

    /// Tokens of the longest run that is counted.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// What is appended from now on is another text.
    pub(super) fn begin_text(&mut self) {
        self.whole = ROOT;
        self.end = EMPTY;
    }

    /// Appends a token to the text.
    pub(super) fn push(&mut self, token: TokenId) {
        self.whole = self.extend(self.whole, token);
        // The state of the old suffix may have been split.
        self.end = self.at_most(self.end, self.depth - 1);
        self.time += 1;
        let ended = self.end;
        self.end = self.advance(token);
        let (time, mut state) = (self.time, self.end.state);
        while state != ROOT {
            let counted = &mut self.states[state as usize];
            counted.count += 1;
            counted.last = time;
            state = self.link(state);
        }
        let mut state = ended.state;
        while state != ROOT {
            let edge = self.edge(state, token).expect("it was just appended");
            let best = self.states[state as usize].best;
            // No other edge's target occurred at this time, so of equals this is the last.
            if best != NONE && self.count(edge) >= self.count(best) {
                self.states[state as usize].best = edge;
            }
            state = self.link(state);
        }
        self.end = self.at_most(self.end, self.depth - 1);
    }

    /// Takes the counts of a text back that was appended before, and begins another.
    pub(super) fn forget(&mut self, text: &[TokenId]) {
        self.begin_text();
        for &token in text {
            let ended = self.end;
            self.end = self.advance(token);
            let mut state = self.end.state;
            while state != ROOT {
                self.states[state as usize].count -= 1;
                state = self.link(state);
            }
            let mut state = ended.state;
            while state != ROOT {
                if self.states[state as usize].best == self.edge(state, token).unwrap_or(NONE) {
                    self.states[state as usize].best = NONE;
                }
                state = self.link(state);
            }
            self.end = self.at_most(self.end, self.depth - 1);
        }
        self.begin_text();
    }

    /// The longest suffix of the text with at most `len` tokens, `len` below `depth`.
    pub(super) fn end(&self, len: usize) -> Run {
        self.at_most(self.end, len)
    }

    /// The longest suffix of `context` that occurs. Suffixes of `context` have fewer tokens than `depth`.
    pub(super) fn find(&self, context: impl Iterator<Item = TokenId>) -> Run {
        let mut run = EMPTY;
        for token in context {
            loop {
                if let Some(edge) = self.edge(run.state, token) {
                    run.state = self.edges[edge as usize].target;
                    run.len += 1;
                    break;
                }
                if run.state == ROOT {
                    break;
                }
                run.state = self.link(run.state);
                run.len = self.states[run.state as usize].len as usize;
            }
        }
        run
    }

    /// The run without its first token, if it has any.
    pub(super) fn shorter(&self, run: Run) -> Option<Run> {
        let len = run.len.checked_sub(1)?;
        Some(self.at_most(run, len))
    }

    /// The token that follows a run most often, of several such the one that did last; runs that have `depth` tokens, or
    /// do not occur, have none.
    pub(super) fn most_frequent(&mut self, run: Run) -> Option<Continuation> {
        let state = run.state as usize;
        let count = self.states[state].count;
        if run.len == 0 || run.len >= self.depth || count == 0 {
            return None;
        }
        if self.states[state].best == NONE {
            self.states[state].best = self.scan(run.state);
        }
        let edge = self.edges.get(self.states[state].best as usize)?;
        self.worked();
        let follows = self.states[edge.target as usize].count;
        (follows > 0).then_some(Continuation {
            token: edge.token,
            share: follows as f32 / count as f32,
            run: Run {
                state: edge.target,
                len: run.len + 1,
            },
        })
    }

    /// The best edge of a state, found by looking at all.
    fn scan(&self, state: u32) -> u32 {
        let mut edge = self.states[state as usize].edges;
        let mut best = NONE;
        let key = |edge: u32| {
            let target = self.states[self.edges[edge as usize].target as usize];
            (target.count, target.last)
        };
        while edge != NONE {
            self.worked();
            if best == NONE || key(edge) > key(best) {
                best = edge;
            }
            edge = self.edges[edge as usize].next;
        }
        best
    }

    /// The text's longest counted suffix with one more of its tokens, which is known.
    fn advance(&self, token: TokenId) -> Run {
        let edge = self.edge(self.end.state, token);
        let edge = edge.expect("the token was appended to this text before");
        Run {
            state: self.edges[edge as usize].target,
            len: self.end.len + 1,
        }
    }

    /// The run's last `len` tokens, or all of them.
    fn at_most(&self, run: Run, len: usize) -> Run {
        let len = len.min(run.len);
        let mut state = run.state;
        while state != ROOT && self.states[self.link(state) as usize].len as usize >= len {
            state = self.link(state);
        }
        Run { state, len }
    }

    /// Makes the text whose state is `whole` a token longer.
    fn extend(&mut self, whole: u32, token: TokenId) -> u32 {
        if let Some(edge) = self.edge(whole, token) {
            return self.exact(whole, edge);
        }
        let len = self.states[whole as usize].len + 1;
        let longer = self.add_state(State {
            len,
            link: ROOT,
            count: 0,
            last: 0,
            best: NONE,
            edges: NONE,
        });
        let mut state = whole;
        loop {
            if let Some(edge) = self.edge(state, token) {
                let link = self.exact(state, edge);
                self.states[longer as usize].link = link;
                return longer;
            }
            self.add_edge(state, token, longer);
            if state == ROOT {
                return longer;
            }
            state = self.link(state);
        }
    }

    /// The state whose longest run is the longest of `state` with the edge's token behind. Where the edge leads to a state
    /// with longer runs, which no longer end at all the same places, that one is split.
    fn exact(&mut self, state: u32, edge: u32) -> u32 {
        let Edge { token, target, .. } = self.edges[edge as usize];
        let (len, longer) = (
            self.states[state as usize].len + 1,
            self.states[target as usize],
        );
        if longer.len == len {
            return target;
        }
        let short = self.add_state(State {
            len,
            best: NONE,
            edges: NONE,
            ..longer
        });
        let mut copied = longer.edges;
        let mut best = NONE;
        while copied != NONE {
            let Edge {
                token,
                target,
                next,
            } = self.edges[copied as usize];
            let copy = self.add_edge(short, token, target);
            if copied == longer.best {
                best = copy;
            }
            copied = next;
        }
        self.states[short as usize].best = best;
        self.states[target as usize].link = short;
        let mut state = state;
        while let Some(edge) = self.edge(state, token) {
            let edge = &mut self.edges[edge as usize];
            if edge.target != target {
                break;
            }
            edge.target = short;
            if state == ROOT {
                break;
            }
            state = self.link(state);
        }
        short
    }

    fn add_state(&mut self, state: State) -> u32 {
        self.states.push(state);
        (self.states.len() - 1) as u32
    }

    fn add_edge(&mut self, from: u32, token: TokenId, target: u32) -> u32 {
        let edge = self.edges.len() as u32;
        let from_state = &mut self.states[from as usize];
        self.edges.push(Edge {
            token,
            target,
            next: from_state.edges,
        });
        if from_state.edges == NONE {
            from_state.best = edge;
        }
        from_state.edges = edge;
        self.index.insert(key(from, token), edge);
        edge
    }

    fn edge(&self, state: u32, token: TokenId) -> Option<u32> {
        self.worked();
        self.index.get(&key(state, token)).copied()
    }

    fn link(&self, state: u32) -> u32 {
        self.worked();
        self.states[state as usize].link
    }

    /// Occurrences of what the edge leads to.
    fn count(&self, edge: u32) -> u32 {
        self.states[self.edges[edge as usize].target as usize].count
    }

    fn worked(&self) {
        #[cfg(test)]
        self.work.set(self.work.get() + 1);
    }

    /// Bytes held.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.states.capacity() * size_of::<State>()
            + self.edges.capacity() * size_of::<Edge>()
            // A control byte an entry, and at least an eighth of them empty.
            + self.index.capacity() * (size_of::<(u64, u32)>() + 1) * 8 / 7
    }

    #[cfg(test)]
    pub(super) fn states_and_edges(&self) -> (usize, usize) {
        (self.states.len(), self.edges.len())
    }
}

impl Continuation {
    /// The run with the token behind.
    pub(super) fn run(self) -> Run {
        self.run
    }
}

fn key(state: u32, token: TokenId) -> u64 {
    u64::from(state) << 32 | u64::from(token)
}
