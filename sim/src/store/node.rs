//! The store as a node: it takes connections and answers one request after the other.

use std::cell::RefCell;
use std::rc::Rc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Effect, Frames, Operation, Reply, Request, Table, encode};
use crate::NodeId;
use crate::history::What;
use crate::net::{Listener, Stream};
use crate::world::{self, with};

/// Runs the store.
pub(crate) async fn serve(node: usize, table: Rc<RefCell<Table>>) {
    let listener = Listener::bind(NodeId::Store)
        .await
        .expect("a fresh host has every port free");
    while let Ok((stream, peer)) = listener.accept().await {
        world::spawn(node, answer(node, stream, peer, Rc::clone(&table)));
    }
}

async fn answer(node: usize, mut stream: Stream, peer: usize, table: Rc<RefCell<Table>>) {
    let mut frames = Frames::default();
    while matches!(stream.read_buf(&mut frames.buffer).await, Ok(1..)) {
        while let Some((number, body)) = frames.next() {
            let request: Request = serde_json::from_slice(&body).expect("our clients speak well");
            let effect = table.borrow_mut().execute(&request);
            record(node, peer, request, effect);
            if stream
                .write_all(&encode(number, &effect.reply))
                .await
                .is_err()
            {
                return;
            }
        }
    }
}

fn record(node: usize, peer: usize, request: Request, effect: Effect) {
    let token = request.token;
    with(|world| {
        let by = world.nodes[peer].id;
        let what = match (request.operation, effect.reply) {
            (Operation::Read { row } | Operation::Claim { row, .. }, Reply::Row(state)) => {
                What::Read {
                    by,
                    token,
                    row,
                    state,
                }
            }
            (Operation::Claim { row, fence }, _) => What::RefusedClaim {
                by,
                token,
                row,
                fence,
                state: effect.before,
            },
            (Operation::Write { row, value, guard }, reply) => What::Write {
                sequence: effect.sequence.expect("every write has a number"),
                by,
                token,
                row,
                value,
                guard,
                accepted: reply == Reply::Accepted,
                before: effect.before,
            },
            (Operation::Read { .. }, _) => unreachable!("a read is always answered with its row"),
        };
        world.record(node, what);
    });
}
