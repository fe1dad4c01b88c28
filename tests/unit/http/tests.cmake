foreach(noun
    body_sink http1_server_end http1_server_pieces http1_server http2_server http2_urgency http_balance http_conn http_idle http_response
    http_response_move forwarded_request http_request http_server http_tls request_check)
  rlb_unit_test(http/${noun} LINK rlb::http)
endforeach()
set_tests_properties(unit.http.http_balance PROPERTIES LABELS "unit;thread")
# Time and what is flushed are the test's.
rlb_unit_test(http/http_held OWN_PROGRAM LINK rlb::http -Wl,--wrap=clock_mono_us -Wl,--wrap=http_response_flush)
