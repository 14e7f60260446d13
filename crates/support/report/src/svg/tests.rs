//! Charts as text of SVG.

use super::*;
use crate::axis::Axis;

fn chart(points: Vec<Vec<(f64, f64)>>) -> Chart {
    let axis = |label: &str| Axis { label: label.to_owned(), scale: Scale::Log10 };
    let series = points.into_iter().enumerate().map(|(look, points)| Series {
        name: format!("s<{look}>"),
        look,
        stroke: if look == 0 { Stroke::Solid } else { Stroke::Dashed },
        points,
    });
    Chart {
        title: "T & t".to_owned(),
        description: "D".to_owned(),
        x: axis("x"),
        y: axis("y"),
        series: series.collect(),
    }
}

#[test]
fn lines_that_end_together_have_labels_apart() {
    let line = vec![(1.0, 5.0), (10.0, 5.0)];
    let chart = chart(vec![line.clone(), line.clone(), line]);
    let plot = Plot {
        chart: &chart,
        height: height(&chart),
        right: WIDTH - RIGHT_MIN,
        x: Fitted::new(&Scale::Log10, [1.0, 10.0].into_iter()),
        y: Fitted::new(&Scale::Log10, [1.0, 10.0].into_iter()),
    };
    let places: Vec<f64> = plot.label_places().into_iter().flatten().collect();
    assert_eq!(places.len(), 3);
    for pair in places.windows(2) {
        assert!((pair[1] - pair[0]).abs() >= LABEL_STEP - 1e-9, "{places:?}");
    }
}

#[test]
fn long_names_have_room() {
    let end_of_lines = |name: &str| {
        let mut chart = chart(vec![vec![(1.0, 5.0), (10.0, 5.0)]]);
        name.clone_into(&mut chart.series[0].name);
        let text = svg(&chart, "c");
        let (_, rest) = text.split_once("class=\"label\" x=\"").expect("a label");
        rest.split('"').next().and_then(|x| x.parse::<f64>().ok()).expect("a place")
    };
    let name = "Soft-EFA verbs SRD, order kept";
    assert!(end_of_lines(name) + 6.6 * name.len() as f64 <= WIDTH);
    assert!(end_of_lines("short") > end_of_lines(name));
}

/// Returns the number behind `name="` in an element.
fn attribute(element: &str, name: &str) -> f64 {
    let (_, rest) = element.split_once(&format!(" {name}=\"")).expect("an attribute");
    rest.split('"').next().and_then(|number| number.parse().ok()).expect("a number")
}

/// About 20 labels once had room, and 49 characters.
#[test]
fn many_lines_with_long_names_are_labelled_within_the_picture() {
    let mut chart = chart(vec![vec![(1.0, 5.0), (10.0, 5.0)]; 40]);
    for (number, series) in chart.series.iter_mut().enumerate() {
        series.name = format!("{number:02}{}", "é".repeat(78));
    }
    let text = svg(&chart, "c");
    let height = height(&chart);
    assert!(text.contains(&format!("viewBox=\"0 0 760 {height}\"")), "{height}");
    let labels: Vec<&str> = text.split("<text class=\"label\"").skip(1).collect();
    assert_eq!(labels.len(), 40);
    let mut places = Vec::new();
    for label in labels {
        let (x, y) = (attribute(label, "x"), attribute(label, "y"));
        let (full, shown) = label.split_once("</title>").expect("a tooltip");
        let shown = shown.split_once("</text>").expect("the end of the label").0;
        assert_eq!(full.matches('é').count(), 78, "{full}");
        assert!(shown.ends_with('…'), "{shown}");
        assert!(x + 6.2 * shown.chars().count() as f64 <= WIDTH, "{x}: {shown}");
        assert!(0.0 < y && y < height, "{y} of {height}");
        places.push(y);
    }
    places.sort_by(f64::total_cmp);
    assert!(places.windows(2).all(|pair| pair[1] - pair[0] > LABEL_STEP - 0.2), "{places:?}");
}

#[test]
fn few_lines_leave_the_picture_as_high_as_it_is() {
    let heights = [1, 19, 20, 21].map(|lines| height(&chart(vec![Vec::new(); lines])));
    assert_eq!(heights[..3], [HEIGHT_MIN; 3]);
    assert!(heights[3] > HEIGHT_MIN);
}

#[test]
fn markup_in_names_is_escaped_and_every_element_closed() {
    let looks = (0..6).map(|_| vec![(1.0, 1.0), (2.0, 4.0), (3.0, 0.0)]).collect();
    let text = svg(&chart(looks), "c");
    assert!(text.contains("T &amp; t") && text.contains("s&lt;0&gt;"));
    for name in ["circle", "rect", "polygon", "ellipse", "title", "g", "svg"] {
        let opened = text.matches(&format!("<{name}")).count();
        let closed = text.matches(&format!("</{name}>")).count();
        assert_eq!(opened, closed, "{name}");
    }
}

#[test]
fn long_lines_have_few_markers() {
    let line = (1..=400).map(|i| (f64::from(i), f64::from(i))).collect();
    let text = svg(&chart(vec![line]), "c");
    let markers = text.matches("<circle").count();
    assert!((5..=10).contains(&markers), "{markers}");
    assert!(text.matches('L').count() > 390, "every point is on the line");
}

#[test]
fn repeated_measurements_are_marks_on_an_upright_line_without_a_label() {
    let mut chart = chart(vec![vec![(1.0, 2.0), (1.0, 8.0), (10.0, 4.0)], vec![(1.0, 5.0)]]);
    chart.series[0].stroke = Stroke::Spread;
    let text = svg(&chart, "c");
    let (spread, rest) = text.split_once("</g>").unwrap();
    let spread = spread.split_once("spread").unwrap().1;
    assert_eq!((spread.matches("<circle").count(), spread.matches('M').count()), (3, 2));
    assert_eq!(rest.matches("class=\"label\"").count(), 1, "of the line only: {rest}");
    assert_eq!(chart.table().rows[0][1], "2.000, 8.000");
}

#[test]
fn names_are_not_joined_by_lines() {
    let mut chart = chart(vec![vec![(1.0, 2.0), (2.0, 8.0)]]);
    chart.x.scale = Scale::Names(vec!["a<b".to_owned(), "tcp".to_owned()]);
    let text = svg(&chart, "c");
    assert!(text.contains(">a&lt;b</text>") && text.contains("class=\"line\" d=\"\""), "{text}");
    assert_eq!(chart.table().rows[1][0], "tcp");
}

#[test]
fn a_point_alone_is_a_mark_with_its_value() {
    let text = svg(&chart(vec![vec![(2.0, 1234.5)], vec![(1.0, 1.0), (2.0, 4.0)]]), "c");
    assert_eq!(text.matches("class=\"alone\"").count(), 1);
    assert!(text.contains(">1234</text>") || text.contains(">1235</text>"), "{text}");
}

#[test]
fn an_empty_chart_is_drawn() {
    assert!(svg(&chart(vec![vec![]]), "c").ends_with("</svg>"));
}
