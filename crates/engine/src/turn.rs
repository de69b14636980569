//! The queue: who may use the device now, and who waits.
//!
//! One request runs at a time, in the order in which they came. Whoever holds the [`Turn`] owns what a request
//! changes (`T`); dropping the turn, however far the request has come, puts it back and wakes the next.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use foretoken_decode::AbortSignal;

/// The most requests that wait for their turn.
pub const MAX_WAITING: usize = 32;

/// A first-come, first-served queue in front of one value.
pub(crate) struct Queue<T> {
    /// Out while somebody has the turn.
    value: Cell<Option<T>>,
    /// In order of arrival; the first has the turn, or takes it when it is polled next.
    entries: RefCell<VecDeque<Entry>>,
    next_id: Cell<u64>,
}

struct Entry {
    id: u64,
    /// Whether it is a request, not work of the engine's own.
    request: bool,
    waker: Option<Waker>,
    abort: AbortSignal,
}

/// A place in the queue. Dropping it gives the place up.
pub(crate) struct Ticket<T> {
    queue: Rc<Queue<T>>,
    id: u64,
}

/// The turn: the value, until it is dropped.
pub(crate) struct Turn<T> {
    /// `None` only while it is dropped.
    value: Option<T>,
    ticket: Ticket<T>,
}

impl<T> Queue<T> {
    pub(crate) fn new(value: T) -> Rc<Self> {
        Rc::new(Self {
            value: Cell::new(Some(value)),
            entries: RefCell::new(VecDeque::new()),
            next_id: Cell::new(0),
        })
    }

    /// Takes a place at the end; `None` if [`MAX_WAITING`] requests wait already. What is done when idle makes way:
    /// its signal is raised.
    pub(crate) fn join(self: &Rc<Self>, abort: AbortSignal) -> Option<Ticket<T>> {
        let mut entries = self.entries.borrow_mut();
        // An entry whose abort was raised leaves when it is polled next, and is in nobody's way.
        let live = entries
            .iter()
            .filter(|entry| entry.request && !entry.abort.is_aborted());
        if live.count() > MAX_WAITING {
            return None;
        }
        for idle in entries.iter().filter(|entry| !entry.request) {
            idle.abort.abort();
        }
        Some(self.enter(&mut entries, abort, true))
    }

    /// A place for work of the engine's own, if nobody is there.
    pub(crate) fn join_if_idle(self: &Rc<Self>, abort: AbortSignal) -> Option<Ticket<T>> {
        let mut entries = self.entries.borrow_mut();
        entries
            .is_empty()
            .then(|| self.enter(&mut entries, abort, false))
    }

    /// Requests that run, and that wait.
    pub(crate) fn lengths(&self) -> (usize, usize) {
        let entries = self.entries.borrow();
        let requests = entries.iter().filter(|entry| entry.request).count();
        let running = usize::from(entries.front().is_some_and(|entry| entry.request));
        (running, requests - running)
    }

    /// Looks at the value, unless somebody has the turn.
    pub(crate) fn with_idle<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        let value = self.value.take()?;
        let result = look(&value);
        self.value.set(Some(value));
        Some(result)
    }

    fn enter(
        self: &Rc<Self>,
        entries: &mut VecDeque<Entry>,
        abort: AbortSignal,
        request: bool,
    ) -> Ticket<T> {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        entries.push_back(Entry {
            id,
            request,
            waker: None,
            abort,
        });
        Ticket {
            queue: Rc::clone(self),
            id,
        }
    }

    /// Whether it is `id`'s turn; if not, `waker` is called when it may be.
    fn poll(&self, id: u64, waker: &Waker) -> bool {
        let mut entries = self.entries.borrow_mut();
        if entries.front().is_some_and(|first| first.id == id) {
            return true;
        }
        if let Some(entry) = entries.iter_mut().find(|entry| entry.id == id) {
            entry.waker = Some(waker.clone());
        }
        false
    }

    fn leave(&self, id: u64) {
        let next = {
            let mut entries = self.entries.borrow_mut();
            entries.retain(|entry| entry.id != id);
            entries.front_mut().and_then(|first| first.waker.take())
        };
        // Outside the borrow: a waker may run anything.
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

impl<T> Ticket<T> {
    /// Waits for the turn; false if `abort` is raised first. The place is kept while nobody polls. (Nothing wakes a task
    /// when a signal is raised: whoever raises it polls again or drops the task.)
    pub(crate) async fn wait(&self, abort: &AbortSignal) -> bool {
        poll_fn(|context| {
            if abort.is_aborted() {
                Poll::Ready(false)
            } else if self.queue.poll(self.id, context.waker()) {
                Poll::Ready(true)
            } else {
                Poll::Pending
            }
        })
        .await
    }

    /// Takes the turn.
    ///
    /// # Panics
    /// Unless [`Ticket::wait`] has just returned true.
    pub(crate) fn take(self) -> Turn<T> {
        let value = self.queue.value.take();
        assert!(value.is_some(), "the turn is taken out of order");
        Turn {
            value,
            ticket: self,
        }
    }

    /// Both.
    pub(crate) async fn turn(self, abort: &AbortSignal) -> Option<Turn<T>> {
        self.wait(abort).await.then(|| self.take())
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        self.queue.leave(self.id);
    }
}

impl<T> std::ops::Deref for Turn<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("a turn has its value")
    }
}

impl<T> std::ops::DerefMut for Turn<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("a turn has its value")
    }
}

impl<T> Drop for Turn<T> {
    fn drop(&mut self) {
        // Before the ticket goes, which wakes whoever is next.
        self.ticket.queue.value.set(self.value.take());
    }
}

#[cfg(test)]
mod tests {
    use pollster::block_on;

    use super::*;

    #[test]
    fn work_of_the_engines_own_makes_way_and_is_no_request() {
        let queue = Queue::new(7);
        let idle = AbortSignal::new();
        let own = queue.join_if_idle(idle.clone()).expect("nobody is there");
        assert_eq!(queue.lengths(), (0, 0));
        let turn = block_on(own.turn(&idle)).expect("its turn at once");
        assert!(!idle.is_aborted());
        let abort = AbortSignal::new();
        let request = queue.join(abort.clone()).expect("there is room");
        assert!(idle.is_aborted(), "it is told to make way");
        assert_eq!(queue.lengths(), (0, 1));
        assert!(queue.join_if_idle(AbortSignal::new()).is_none());
        assert_eq!(queue.with_idle(|value| *value), None);
        drop(turn);
        let mut turn = block_on(request.turn(&abort)).expect("its turn");
        assert_eq!(*turn, 7);
        *turn = 8;
        drop(turn);
        assert_eq!(queue.with_idle(|value| *value), Some(8));
        assert!(!abort.is_aborted(), "a request makes way for nobody");
    }

    #[test]
    fn a_place_whose_abort_was_raised_is_in_nobodys_way() {
        let queue = Queue::new(());
        let aborts: Vec<AbortSignal> = (0..=MAX_WAITING).map(|_| AbortSignal::new()).collect();
        let places: Vec<_> = aborts
            .iter()
            .map(|abort| queue.join(abort.clone()).expect("there is room"))
            .collect();
        assert!(queue.join(AbortSignal::new()).is_none());
        aborts[3].abort();
        assert!(queue.join(AbortSignal::new()).is_some());
        let mut places = places.into_iter();
        let third = places.nth(3).expect("so many joined");
        assert!(block_on(third.turn(&aborts[3])).is_none(), "it hears");
    }
}
