//! HTTP statuses of errors.

use crate::Error;

/// The status under which an error goes over the wire.
pub fn status(error: &Error) -> u16 {
    match error {
        Error::Busy => 429,
        Error::ModelNotServed { .. } => 404,
        // Nobody is left to read it; what servers log for a client that went away.
        error if error.is_abort() => 499,
        error if error.is_request_error() => 400,
        error => match error.code() {
            "device_lost" | "out_of_memory" | "webgpu_unavailable" => 503,
            _ => 500,
        },
    }
}

#[cfg(test)]
mod tests {
    use foretoken_core::OpsError;
    use foretoken_decode::DecodeError;

    use super::*;

    #[test]
    fn statuses_are_those_clients_act_upon() {
        let lost = || OpsError::DeviceLost {
            reason: "unplugged".to_owned(),
        };
        let bad = Error::InvalidRequest {
            param: None,
            message: String::new(),
        };
        for (error, expected) in [
            (bad, 400),
            (Error::Busy, 429),
            (Error::Decode(DecodeError::Aborted), 499),
            (Error::Ops(lost()), 503),
            (Error::Decode(DecodeError::Device(lost())), 503),
        ] {
            assert_eq!(status(&error), expected, "{error:?}");
        }
    }
}
