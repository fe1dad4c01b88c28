# cmake -DOUT=assets.h -DFILES=a.html;b.js -P Embed.cmake: each file as "static const unsigned char asset_a_html[]".
# For files that a program serves or prints. Directories call rlb_assets() in Module.cmake.
set(text "/* Made by cmake/Embed.cmake. */\n")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  string(REGEX REPLACE "[^A-Za-z0-9]" "_" name ${name})
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
  string(APPEND text "static const unsigned char asset_${name}[] = {\n${bytes}\n};\n")
endforeach()
file(WRITE ${OUT} "${text}")
