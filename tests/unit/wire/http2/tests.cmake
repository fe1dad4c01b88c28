foreach(noun hpack hpack_encoder http2_head http2_meter http2_reader http2_reader_errors)
  rlb_unit_test(wire/http2/${noun} LINK rlb::wire)
endforeach()
