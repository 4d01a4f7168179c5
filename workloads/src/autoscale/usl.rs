//! The Universal Scalability Law (N. J. Gunther, "Guerrilla Capacity Planning", 2007):
//! `X(N) = λN / (1 + σ(N − 1) + κN(N − 1))`, where σ is contention and κ coherency.

use serde::Serialize;

/// A fit of measured throughput over users.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct UslFit {
    /// λ: throughput of one user without any other, bytes/s.
    pub lambda_bytes_per_s: f64,
    /// σ, ≥ 0: the part that is served one after the other.
    pub sigma: f64,
    /// κ, ≥ 0: the cost of each pair of users.
    pub kappa: f64,
    /// Coefficient of determination over the measured points.
    pub r_squared: f64,
    /// Users at the fit's maximum, √((1 − σ)/κ); none when it has none.
    pub peak_users: Option<f64>,
}

impl UslFit {
    /// Throughput with `users`, bytes/s.
    #[must_use]
    pub fn at(&self, users: f64) -> f64 {
        let pairs = users * (users - 1.0);
        self.lambda_bytes_per_s * users / (1.0 + self.sigma * (users - 1.0) + self.kappa * pairs)
    }
}

/// Fits by least squares. With `a = 1/λ`, `b = σ/λ`, `c = κ/λ` the law is linear:
/// `N/X = a + b(N − 1) + cN(N − 1)`; each equation is divided by `N/X`, so that the relative error
/// counts. A negative b or c makes no sense: of the fits that hold one of them or both at 0, the
/// one with the least error is taken. None with fewer than three different user counts.
#[must_use]
pub fn fit(points: &[(u32, f64)]) -> Option<UslFit> {
    let points: Vec<(f64, f64)> = points
        .iter()
        .filter(|&&(users, rate)| users > 0 && rate > 0.0)
        .map(|&(users, rate)| (f64::from(users), rate))
        .collect();
    let mut counts: Vec<f64> = points.iter().map(|point| point.0).collect();
    counts.sort_by(f64::total_cmp);
    counts.dedup();
    if counts.len() < 3 {
        return None;
    }
    let candidates = [[true, true], [true, false], [false, true], [false, false]];
    let sensible = candidates.into_iter().filter_map(|[with_b, with_c]| {
        let solved = solve(&points, with_b, with_c)?;
        (solved[0] > 0.0 && solved[1] >= 0.0 && solved[2] >= 0.0).then_some(solved)
    });
    let error = |[a, b, c]: &[f64; 3]| -> f64 {
        let of = |&(users, rate): &(f64, f64)| {
            let more = users - 1.0;
            (rate / users * (a + b * more + c * users * more) - 1.0).powi(2)
        };
        points.iter().map(of).sum()
    };
    let [a, b, c] = sensible.min_by(|one, other| error(one).total_cmp(&error(other)))?;
    let mut fit = UslFit {
        lambda_bytes_per_s: 1.0 / a,
        sigma: b / a,
        kappa: c / a,
        r_squared: 0.0,
        peak_users: None,
    };
    let mean = points.iter().map(|point| point.1).sum::<f64>() / points.len() as f64;
    let residual: f64 = points.iter().map(|&(users, rate)| (rate - fit.at(users)).powi(2)).sum();
    let total: f64 = points.iter().map(|&(_, rate)| (rate - mean).powi(2)).sum();
    fit.r_squared = if total > 0.0 { 1.0 - residual / total } else { 1.0 };
    fit.peak_users =
        (fit.kappa > 0.0 && fit.sigma < 1.0).then(|| ((1.0 - fit.sigma) / fit.kappa).sqrt());
    Some(fit)
}

/// Normal equations of the terms taken part in, by Gaussian elimination with pivoting.
fn solve(points: &[(f64, f64)], with_b: bool, with_c: bool) -> Option<[f64; 3]> {
    let mut matrix = [[0.0; 4]; 3];
    for &(users, rate) in points {
        let weight = rate / users;
        let row = [
            weight,
            if with_b { weight * (users - 1.0) } else { 0.0 },
            if with_c { weight * users * (users - 1.0) } else { 0.0 },
        ];
        for i in 0..3 {
            for j in 0..3 {
                matrix[i][j] += row[i] * row[j];
            }
            matrix[i][3] += row[i];
        }
    }
    for (index, on) in [(1, with_b), (2, with_c)] {
        if !on {
            matrix[index][index] = 1.0;
        }
    }
    for column in 0..3 {
        let pivot = (column..3)
            .max_by(|&a, &b| matrix[a][column].abs().total_cmp(&matrix[b][column].abs()))?;
        matrix.swap(column, pivot);
        if matrix[column][column].abs() < 1e-300 {
            return None;
        }
        for row in 0..3 {
            if row != column {
                let factor = matrix[row][column] / matrix[column][column];
                let pivot_row = matrix[column];
                for (left, right) in matrix[row].iter_mut().zip(pivot_row) {
                    *left -= factor * right;
                }
            }
        }
    }
    Some(std::array::from_fn(|i| matrix[i][3] / matrix[i][i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(lambda: f64, sigma: f64, kappa: f64) -> UslFit {
        UslFit { lambda_bytes_per_s: lambda, sigma, kappa, r_squared: 1.0, peak_users: None }
    }

    #[test]
    fn a_curve_of_the_law_gives_back_its_parameters() {
        for (lambda, sigma, kappa) in [(1e8, 0.05, 1e-4), (5.0, 0.0, 0.01), (1e9, 0.3, 0.0)] {
            let curve = law(lambda, sigma, kappa);
            let points: Vec<(u32, f64)> =
                [1u32, 2, 4, 8, 16, 32, 64].map(|n| (n, curve.at(f64::from(n)))).to_vec();
            let found = fit(&points).unwrap();
            assert!((found.lambda_bytes_per_s / lambda - 1.0).abs() < 1e-6, "{found:?}");
            assert!((found.sigma - sigma).abs() < 1e-6, "{found:?}");
            assert!((found.kappa - kappa).abs() < 1e-8, "{found:?}");
            assert!(found.r_squared > 0.999_999);
        }
    }

    #[test]
    fn noise_does_not_make_contention_negative_and_too_few_points_give_nothing() {
        let points = [(1, 100.0), (2, 203.0), (4, 398.0), (8, 809.0)];
        let found = fit(&points).unwrap();
        assert!(found.sigma >= 0.0 && found.kappa >= 0.0 && found.r_squared > 0.99, "{found:?}");
        assert_eq!(fit(&points[..2]), None);
        assert_eq!(fit(&[(1, 1.0), (1, 2.0), (1, 3.0), (2, 0.0)]), None);
    }

    fn near(found: f64, wanted: f64) -> bool {
        (found / wanted - 1.0).abs() < 1e-6
    }

    /// The formula of the law's maximum, and that of R² over the points themselves.
    #[test]
    fn the_maximum_and_the_goodness_of_a_fit_are_those_of_their_formulas() {
        let points = [(1, 0.10), (2, 0.17), (4, 0.31), (8, 0.38), (16, 0.42), (32, 0.36)];
        let found = fit(&points).unwrap();
        let peak = ((1.0 - found.sigma) / found.kappa).sqrt();
        assert!(found.kappa > 0.0 && near(found.peak_users.unwrap(), peak), "{found:?}");
        let mean = 1.74 / 6.0;
        let (mut residual, mut total) = (0.0, 0.0);
        for (users, rate) in points {
            residual += (rate - found.at(f64::from(users))).powi(2);
            total += (rate - mean) * (rate - mean);
        }
        assert!(found.r_squared < 0.999 && near(found.r_squared, 1.0 - residual / total));
        // Points that are all the same are explained by any curve through them.
        let level = fit(&[(1, 0.5), (2, 0.5), (4, 0.5)]).unwrap();
        assert_eq!(level.r_squared, 1.0, "{level:?}");
    }

    #[test]
    fn a_curve_without_a_maximum_has_none() {
        // Contention alone, and as much of it that two users do less than one.
        let more_than_all = law(10.0, 1.03, 0.01);
        let points = [1u32, 2, 4, 8].map(|n| (n, more_than_all.at(f64::from(n))));
        assert_eq!(fit(&points).unwrap().peak_users, None);
        let superlinear = fit(&[(1, 1.0), (2, 2.2), (4, 5.0)]).unwrap();
        assert_eq!((superlinear.sigma, superlinear.kappa), (0.0, 0.0));
        assert_eq!(superlinear.peak_users, None);
    }

    #[test]
    fn a_term_that_would_be_negative_is_left_out_and_the_other_is_kept() {
        let bent = |curve: UslFit| {
            [1u32, 2, 4, 8, 16].map(|n| {
                let bend = if n == 16 { 1.02 } else { 1.0 };
                (n, bend * curve.at(f64::from(n)))
            })
        };
        let found = fit(&bent(law(10.0, 0.1, 0.0))).unwrap();
        assert!(found.sigma > 0.06 && found.kappa == 0.0, "{found:?}");
        assert_eq!(found.peak_users, None);
        // A curve that would begin below nothing.
        let late = fit(&[(10, 10.0), (20, 20.0 / 3.0), (30, 6.0)]).unwrap();
        assert!(late.lambda_bytes_per_s > 0.0, "{late:?}");
    }

    /// Contention was let stand in for it, although it was the term that would be negative.
    #[test]
    fn throughput_that_falls_again_has_a_maximum_also_where_there_is_no_contention() {
        let found = fit(&[(1, 10.0), (2, 22.0), (4, 40.0), (8, 50.0), (16, 33.0)]).unwrap();
        assert!(found.sigma == 0.0 && found.kappa > 0.01, "{found:?}");
        let peak = found.peak_users.unwrap();
        assert!((6.0..10.0).contains(&peak), "{peak}");
    }

    #[test]
    fn points_of_no_users_and_of_no_throughput_are_left_out() {
        let curve = law(0.1, 0.05, 0.01);
        let points = [1u32, 2, 4].map(|n| (n, curve.at(f64::from(n))));
        let found = fit(&points).unwrap();
        assert!(near(found.lambda_bytes_per_s, 0.1), "{found:?}");
        assert_eq!(fit(&[&points[..], &[(0, 5.0), (3, 0.0)]].concat()), Some(found));
        // Three different counts are enough, two of them in turn are not.
        assert_eq!(fit(&points[..2]), None);
        assert_eq!(fit(&[points[0], points[1], points[0], points[1]]), None);
    }
}
