foreach(noun http_balance http_server http_tls)
  rlb_unit_test(server/${noun} LINK rlb::http)
endforeach()
set_tests_properties(unit.server.http_balance PROPERTIES LABELS "unit;thread")
