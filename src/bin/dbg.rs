#![allow(missing_docs)]
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let algo = algorithms::ALL.iter().find(|x| x.name() == a[1]).unwrap();
    let s = scenarios::builtin::get(&a[2], &[]).unwrap().unwrap();
    let r = scenarios::run(*algo, &s, a[3].parse().unwrap(), &sim::engine::Event).unwrap();
    for e in &r.history.events {
        if let sim::history::What::Executed { .. } = e.what {
            continue;
        }
        if let sim::history::What::Denied { held: true, .. } | sim::history::What::Asked { .. } =
            e.what
        {
            continue;
        }
        println!("{:>7} {} {:?}", e.at, e.node, e.what);
    }
    for v in &r.verdict.violations {
        println!("{v:?}");
    }
    println!("plan {:?} ended {}", r.instance.setup.plan, r.history.ended);
}
