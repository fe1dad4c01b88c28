foreach(noun cache_control cache_rules cache_variant dns_srv http1_bytes http1_head http1_request http_date http_field priority_field proxy_line
    request_chunks trace_context trace_line url_line)
  rlb_unit_test(wire/${noun} LINK rlb::wire)
endforeach()
# The parsers of heads again, as on a machine without SSE2 (tests/unit/CMakeLists.txt compiles them into the program).
foreach(noun http1_bytes http1_head http1_request)
  rlb_test_source(unit wire_portable ${noun} ${CMAKE_CURRENT_SOURCE_DIR}/wire/${noun}_test.c LINK rlb::wire PkgConfig::CMOCKA)
  add_test(NAME unit.wire.${noun}_portable COMMAND unit.wire_portable ${noun})
  set_tests_properties(unit.wire.${noun}_portable PROPERTIES LABELS unit TIMEOUT 60)
endforeach()
