//! A picture in pixels, rendered from the same SVG with an embedded font. What is installed
//! on the machine makes no difference.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

/// Why an SVG was not rendered.
#[derive(Debug)]
pub struct NotRendered(String);

impl std::fmt::Display for NotRendered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "failed to render the picture: {}", self.0)
    }
}

impl std::error::Error for NotRendered {}

/// Renders an SVG as a PNG of a width in pixels.
pub fn png(svg: &str, width: u32) -> Result<Vec<u8>, NotRendered> {
    let failed = |reason: String| NotRendered(reason);
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.load_font_data(dejavu::sans::bold().to_vec());
    let options = Options {
        font_family: "DejaVu Sans".into(),
        fontdb: Arc::new(fonts),
        ..Options::default()
    };
    let tree = Tree::from_str(svg, &options).map_err(|error| failed(error.to_string()))?;
    let scale = width as f32 / tree.size().width();
    let height = (tree.size().height() * scale).ceil() as u32;
    let mut pixels = Pixmap::new(width, height)
        .ok_or_else(|| failed(format!("{width} x {height} pixels is no picture")))?;
    let transform = Transform::from_scale(scale, scale);
    resvg::render(&tree, transform, &mut pixels.as_mut());
    pixels
        .encode_png()
        .map_err(|error| failed(error.to_string()))
}
