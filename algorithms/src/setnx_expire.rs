//! SETNX, then PEXPIRE as a second command: a crash between the two leaves a lock without a
//! time to live.
//!
//! Source: the mistake that the Redis documentation's SET page answers with the NX and PX
//! options; reported as horizon#1738 and node-resque#281.

use async_trait::async_trait;
use redis::RedisResult;
use sim::fault::Point;

use crate::declare::owner_of_key;
use crate::setnx::{delete, set_if_absent};
use crate::{
    AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock, ReleaseError,
    Service, Worker, Works, standard,
};

/// The algorithm.
#[derive(Debug, Clone, Copy)]
pub struct SetNxExpire;

impl Algorithm for SetNxExpire {
    fn name(&self) -> &'static str {
        "setnx-expire"
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "SETNX, then PEXPIRE as a second command, DEL",
            source: "horizon#1738, node-resque#281",
            family: Family::Plain,
            service: Service::Redis,
            points: &[Point::MidAcquire],
            ordered: false,
            works: Works::Any,
            assumes: &[
                Assumption::HoldersLive,
                Assumption::SectionWithinLease,
                Assumption::ClocksDoNotStep,
                Assumption::DataIsKept,
            ],
            holders: Some(owner_of_key),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        standard(client.clone(), TwoCommands { client })
    }
}

struct TwoCommands {
    client: Client,
}

#[async_trait(?Send)]
impl Lock for TwoCommands {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let token = self.client.token();
        if !set_if_absent(&self.client, key, &token).await? {
            return Err(AcquireError::Held);
        }
        self.client.point(Point::MidAcquire).await;
        let mut expire = redis::cmd("PEXPIRE");
        let expire = expire.arg(key).arg(self.client.ttl());
        let expires: RedisResult<u64> = expire.query_async(&mut self.client.redis(0)).await;
        // Whatever PEXPIRE found, SETNX has succeeded; only silence leaves us in doubt.
        expires.map_err(|_| AcquireError::Unknown)?;
        Ok(Lease::plain(key, token))
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        delete(&self.client, &lease.key).await
    }
}
