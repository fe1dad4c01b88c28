rlb_unit_test(http2/http2_server LINK rlb::http)
