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
/// counts. A negative b or c makes no sense and is held at 0. None with fewer than three different
/// user counts.
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
    // The first whose terms all make sense leaves out the least.
    let [a, b, c] = candidates.into_iter().find_map(|[with_b, with_c]| {
        let solved = solve(&points, with_b, with_c)?;
        (solved[0] > 0.0 && solved[1] >= 0.0 && solved[2] >= 0.0).then_some(solved)
    })?;
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
}
