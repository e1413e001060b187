#![allow(missing_docs, clippy::disallowed_methods)]
#[global_allocator]
static A: mimalloc::MiMalloc = mimalloc::MiMalloc;
use scenarios::matrix::*;
use std::sync::atomic::AtomicBool;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let n: u64 = args[1].parse().unwrap();
    let all: Vec<_> = scenarios::builtin::all()
        .into_iter()
        .filter(|s| args.len() < 3 || args[2..].contains(&s.name))
        .collect();
    let t0 = std::time::Instant::now();
    for s in &all {
        println!("== {}", s.name);
        for a in algorithms::ALL {
            let t = std::time::Instant::now();
            let m = play(
                &[*a],
                std::slice::from_ref(s),
                Seeds { from: 0, count: n },
                &sim::engine::Event,
                &|| (),
                &AtomicBool::new(false),
            );
            let c = &m.cells[0];
            if c.not_applicable.is_some() {
                continue;
            }
            let v: Vec<String> = c
                .violations
                .iter()
                .filter(|v| v.rate.hits > 0)
                .map(|v| {
                    format!(
                        "{} {}({:.0}%)",
                        v.invariant,
                        v.rate.hits,
                        v.rate.share() * 100.0
                    )
                })
                .collect();
            let chk = check(c, s.expectation(a.name(), &a.declares()));
            let flag = match &chk {
                Checked::AsExpected { .. } => "ok".to_string(),
                o => format!("{o:?}").replace("Differs", ""),
            };
            println!(
                "  {:18} runs {} vac {} fail {} nostuck {} | {} | {} | {:?}/run cmds/s {:.1} p50 {:?}",
                c.algorithm,
                c.runs,
                c.vacuous,
                c.failed,
                c.stuck_not_judged,
                v.join(" "),
                flag,
                t.elapsed() / (c.seeds.max(1)) as u32,
                c.commands_per_section(),
                c.wait(0.5)
            );
        }
    }
    println!("total {:?}", t0.elapsed());
}
