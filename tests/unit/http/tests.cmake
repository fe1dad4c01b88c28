foreach(noun body_sink http_conn http_fields http_idle http_reply http_reply_move http_request request_check)
  rlb_unit_test(http/${noun} LINK rlb::http)
endforeach()
# Time and what is flushed are the test's.
rlb_unit_test(http/http_held OWN_PROGRAM LINK rlb::http -Wl,--wrap=clock_mono_us -Wl,--wrap=http_reply_flush)
