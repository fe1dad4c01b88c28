foreach(noun crypto tls_server_name tls_tickets)
  rlb_unit_test(tls/${noun} LINK rlb::tls)
endforeach()
set_tests_properties(unit.tls.tls_tickets PROPERTIES LABELS "unit;thread")
