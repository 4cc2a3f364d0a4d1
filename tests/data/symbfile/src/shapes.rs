// SPDX-License-Identifier: Apache-2.0
// Generic functions, closures, trait objects and iterators, which Rust inlines into one another.
use std::collections::BTreeMap;
use std::fmt;

trait Shape {
    fn area(&self) -> f64;
    fn name(&self) -> String {
        "shape".to_string()
    }
}

struct Square(f64);
struct Circle {
    radius: f64,
}

impl Shape for Square {
    fn area(&self) -> f64 {
        times(self.0, self.0)
    }
    fn name(&self) -> String {
        format!("square of {:.1}", self.0)
    }
}

impl Shape for Circle {
    fn area(&self) -> f64 {
        times(times(self.radius, self.radius), std::f64::consts::PI)
    }
}

fn times<T: std::ops::Mul<Output = T>>(a: T, b: T) -> T {
    a * b
}

#[derive(Debug)]
enum Failure {
    Empty,
    NoNumber(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Failure::Empty => write!(f, "nothing there"),
            Failure::NoNumber(text) => write!(f, "{:?} is no number", text),
        }
    }
}

#[inline(never)]
fn read(words: &[String]) -> Result<Vec<Box<dyn Shape>>, Failure> {
    if words.is_empty() {
        return Err(Failure::Empty);
    }
    words
        .iter()
        .enumerate()
        .map(|(i, word)| {
            let size: f64 = word.parse().map_err(|_| Failure::NoNumber(word.clone()))?;
            Ok(if i % 2 == 0 { Box::new(Square(size)) as Box<dyn Shape> } else { Box::new(Circle { radius: size }) })
        })
        .collect()
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match read(&words) {
        Ok(shapes) => {
            let mut by_name: BTreeMap<String, f64> = BTreeMap::new();
            for shape in &shapes {
                *by_name.entry(shape.name()).or_insert(0.0) += shape.area();
            }
            for (name, area) in by_name {
                println!("{}: {}", name, area);
            }
        }
        Err(failure) => println!("{}", failure),
    }
}
